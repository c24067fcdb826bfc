package consumer

// Buffered returns how many tasks the worker holds in memory.
func Buffered(w *Worker) int {
	w.sched.mu.Lock()
	defer w.sched.mu.Unlock()
	n := 0
	for _, l := range w.lanes {
		n += l.buffered + l.held
	}
	return n
}

// SlotsOf returns how many slots the worker has, as goroutines.
func SlotsOf(w *Worker) int {
	w.sched.mu.Lock()
	defer w.sched.mu.Unlock()
	return len(w.sched.slots)
}

// Build returns the wrapped handlers of a mux.
func Build(m *Mux) (map[string]Handler, error) { return m.build() }

// Consumed returns the topics that the worker's client of a lane reads.
func Consumed(w *Worker, lane string) []string {
	for _, l := range w.lanes {
		if l.conf.Name == lane {
			return l.member.Kafka().GetConsumeTopics()
		}
	}
	return nil
}
