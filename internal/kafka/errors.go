package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/axtasks/ax"
)

// Watch remembers the last failure to connect to a broker. The zero value is
// ready; it is safe for concurrent use.
type Watch struct {
	last atomic.Pointer[failure]
	sasl bool
}

type failure struct{ err error }

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (w *Watch) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		w.last.Store(nil)
		return
	}
	if w.sasl && errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w (the broker hung up on the SASL login: wrong user or password?)", err)
	}
	w.last.Store(&failure{fmt.Errorf("%s: %w", net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port)), err)})
}

// Err returns why the last connect failed, or nil when it succeeded.
func (w *Watch) Err() error {
	if f := w.last.Load(); f != nil {
		return f.err
	}
	return nil
}

// Explain returns err so that it matches the sentinel of the root package for
// its class, and says the connection's trouble where err only says that time
// ran out.
func (w *Watch) Explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ax.ErrUnknownOutcome), errors.Is(err, ax.ErrBusy), errors.Is(err, ax.ErrDropped):
		return err
	case errors.Is(err, kgo.ErrClientClosed):
		return fmt.Errorf("%w: %w", ax.ErrClosed, err)
	case refused(err):
		return fmt.Errorf("%w: %w", ax.ErrAuth, err)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return fmt.Errorf(`%w (provision it with "ax topics apply"): %w`, ax.ErrTopicMissing, err)
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return fmt.Errorf("%w: %w", ax.ErrTooLarge, err)
	}
	if last := w.Err(); last != nil {
		class := ax.ErrUnreachable
		if refused(last) {
			class = ax.ErrAuth
		}
		if errors.Is(last, err) {
			return fmt.Errorf("%w: %w", class, last) // the same, and with the address
		}
		return fmt.Errorf("%w: %w; last: %w", class, err, last)
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w: %w", ax.ErrUnreachable, err)
	}
	return err
}

// refused reports whether a broker's security is the reason.
func refused(err error) bool {
	for _, code := range []error{
		kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState,
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// Ping returns nil once a broker has answered, the credentials included, and
// an error that says why not after at most timeout.
func Ping(ctx context.Context, cl *kgo.Client, w *Watch, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return NoAnswer(cl, w, cl.Ping(ctx))
}

// NoAnswer explains the error of a question to the first broker. Where nothing
// closer is known, such as after a hang-up, no broker was reached.
func NoAnswer(cl *kgo.Client, w *Watch, err error) error {
	err = w.Explain(err)
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	for _, known := range []error{ax.ErrUnreachable, ax.ErrAuth, ax.ErrClosed} {
		if errors.Is(err, known) {
			return err
		}
	}
	seeds, _ := cl.OptValue(kgo.SeedBrokers).([]string)
	return fmt.Errorf("%w: no answer from %s: %w", ax.ErrUnreachable, strings.Join(seeds, ", "), err)
}

// TopicIDs returns the ids of topics, or an error matching ax.ErrTopicMissing
// that names all that don't exist. A topic that was just made is asked for
// again for a few seconds, since each broker learns of it by itself.
func TopicIDs(ctx context.Context, cl *kgo.Client, w *Watch, topics ...string) (map[string][16]byte, error) {
	const patience = 5 * time.Second
	tick := time.NewTicker(300 * time.Millisecond) // above the least age of metadata
	defer tick.Stop()
	for began := time.Now(); ; {
		ids, err := topicIDs(ctx, cl, w, topics)
		if !errors.Is(err, ax.ErrTopicMissing) || time.Since(began) >= patience {
			return ids, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

func topicIDs(ctx context.Context, cl *kgo.Client, w *Watch, topics []string) (map[string][16]byte, error) {
	details, err := kadm.NewClient(cl).ListTopics(ctx, topics...)
	if err != nil {
		return nil, w.Explain(err)
	}
	ids := make(map[string][16]byte, len(topics))
	var missing []string
	for _, name := range topics {
		d, ok := details[name]
		switch {
		case !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			missing = append(missing, name)
		case d.Err != nil:
			return nil, fmt.Errorf("topic %s: %w", name, w.Explain(d.Err))
		default:
			ids[name] = d.ID
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf(`%w: %s; provision with "ax topics apply"`, ax.ErrTopicMissing, strings.Join(missing, ", "))
	}
	return ids, nil
}
