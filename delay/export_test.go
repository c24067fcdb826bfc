package delay

import "time"

// LookEvery sets how often the mover asks whether leftovers still exist.
func LookEvery(m *Mover, every time.Duration) { m.lookEvery = every }

// MaxOpen and MaxOpenBytes bound what is on its way to one topic, and NearBytes
// what is held of one partition of the near tier.
const (
	MaxOpen      = maxOpen
	MaxOpenBytes = maxOpenBytes
	NearBytes    = nearBytes
)

// OnTheWay returns how many records, and bytes, the near mover has published to
// a topic and not seen answered, and how many bytes it holds beside.
func OnTheWay(m *Mover, topic string) (n, bytes, held int) {
	r := m.readers[1]
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.parts {
		held += s.bytes
	}
	l := r.load(topic)
	return l.n, l.bytes, held
}

// Held returns how many records of a partition the mover holds in memory, and
// whether it has paused it.
func Held(m *Mover, topic string, partition int32) (n int, paused bool) {
	for _, r := range m.readers {
		r.mu.Lock()
		for p, s := range r.parts {
			if p.Topic == topic && p.ID == partition {
				n, paused = s.queue.Len()+s.held, p.Paused() != 0
			}
		}
		r.mu.Unlock()
	}
	return n, paused
}

// Sources returns of how many partitions of a topic the mover knows records.
func Sources(m *Mover, topic string) (n int) {
	for _, r := range m.readers {
		r.mu.Lock()
		for p := range r.parts {
			if p.Topic == topic {
				n++
			}
		}
		r.mu.Unlock()
	}
	return n
}
