package ax_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
)

func benchTask() *ax.Task {
	return &ax.Task{
		ID: "0190c0de-7a1b-7000-8000-000000000001", Kind: "order.close", Lane: "normal", Payload: make([]byte, 100),
		Submitted: time.Now(), Headers: []ax.Header{{Name: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}},
	}
}

func BenchmarkDecode(b *testing.B) {
	r := ax.Encode(benchTask())
	for _, together := range []int{1, 32} {
		b.Run(fmt.Sprint("together=", together), func(b *testing.B) {
			var d ax.Decoder
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%together == 0 {
					d.Grow(together)
				}
				if _, err := d.Decode(r, [16]byte{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	t := benchTask()
	for _, together := range []int{1, 64} {
		b.Run(fmt.Sprint("together=", together), func(b *testing.B) {
			var e ax.Encoder
			var rs []kgo.Record
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%together == 0 {
					e, rs = ax.Encoder{}, make([]kgo.Record, together)
					e.Grow(together)
				}
				e.Encode(&rs[i%together], t)
			}
		})
	}
}
