package ax_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/axtasks/ax"
)

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	const text = "hunter2"
	d := ax.Domain{Name: "o", Kafka: ax.Kafka{SASL: ax.SASL{User: "u", Password: text}}}
	var outs []string
	for _, v := range []any{d.Kafka.SASL.Password, d.Kafka.SASL, d, &d, []ax.Secret{text}, map[string]ax.Secret{"k": text}, struct{ S any }{d}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%10s", "%-20q", "%T"} {
			outs = append(outs, fmt.Sprintf(verb, v))
		}
		outs = append(outs, fmt.Sprint(v), fmt.Sprintln(v), fmt.Errorf("x: %v", v).Error())
		if j, err := json.Marshal(v); err == nil {
			outs = append(outs, string(j))
		}
		y, err := yaml.Dump(v)
		require.NoError(t, err)
		outs = append(outs, string(y))
		for _, h := range []func(*bytes.Buffer) slog.Handler{
			func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		} {
			var b bytes.Buffer
			slog.New(h(&b)).Info("m", "v", v)
			outs = append(outs, b.String())
		}
	}
	for _, out := range outs {
		require.NotContains(t, out, text)
		require.NotContains(t, out, fmt.Sprintf("%x", text))
		require.NotContains(t, out, fmt.Sprintf("%X", text))
		require.NotContains(t, out, fmt.Sprintf("% x", text))
	}
	require.Equal(t, "*****", fmt.Sprint(ax.Secret(text)))
	require.Empty(t, fmt.Sprint(ax.Secret("")), "an empty one shows that it is empty")
	require.Equal(t, text, string(d.Kafka.SASL.Password))
}

func TestTLSIsOnWhenAnythingIsSet(t *testing.T) {
	t.Parallel()
	require.False(t, ax.TLS{}.On())
	for _, c := range []ax.TLS{{Enabled: true}, {CAFile: "f"}, {CertFile: "f"}, {KeyFile: "f"}, {ServerName: "n"}} {
		require.True(t, c.On(), "%+v", c)
	}
}
