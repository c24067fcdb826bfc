package ax_test

import (
	"testing"
	"time"

	"github.com/axtasks/ax"
)

func BenchmarkDecode(b *testing.B) {
	r := ax.Encode(&ax.Task{
		ID: "0190c0de-7a1b-7000-8000-000000000001", Kind: "order.close", Lane: "normal", Payload: make([]byte, 100),
		Submitted: time.Now(), Headers: []ax.Header{{Name: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}},
	})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ax.Decode(r, [16]byte{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	t := &ax.Task{
		ID: "0190c0de-7a1b-7000-8000-000000000001", Kind: "order.close", Lane: "normal", Payload: make([]byte, 100),
		Submitted: time.Now(), Headers: []ax.Header{{Name: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}},
	}
	b.ReportAllocs()
	for b.Loop() {
		ax.Encode(t)
	}
}
