package delay

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax/internal/kafka"
	"github.com/axtasks/ax/internal/trim"
)

// trimLoop trims until ctx ends, through a client of its own: a question to a
// broker that is away must hold up no heartbeat.
func (m *Mover) trimLoop(ctx context.Context) {
	opts, watch, err := kafka.Options(m.domain, "trim", m.cfg.log)
	var cl *kgo.Client
	if err == nil {
		cl, err = kgo.NewClient(slices.Concat(opts, m.cfg.kafka)...)
	}
	if err != nil { // such as a certificate that was there when the readers began
		m.cfg.log.Error("nothing is trimmed: no client", "domain", m.domain.Name, "error", err)
		return
	}
	defer cl.Close()
	trim.New(m.router, kadm.NewClient(cl), watch, m.cfg.log).Run(ctx)
}
