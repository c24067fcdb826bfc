package sim

// happening is what an event is.
type happening uint8

const (
	arrives happening = iota // of is a feed, whose next task comes
	floods                   // of is a source that begins to flood
	moves                    // of is a task that leaves its tier
	due                      // of is a task in its lane that may start
	ends                     // of is a run
)

// event is something that happens at an instant.
type event struct {
	at    int64
	order uint64
	of    int32
	what  happening
}

// before orders events by time. At one instant all that brings work comes before
// the runs that end, so that no lane has a slot only because it came first in
// some list; else they go in the order in which they were made.
func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if ended := e.what == ends; ended != (o.what == ends) {
		return !ended
	}
	return e.order < o.order
}

// events is a heap. Package container/heap would put each event into memory of
// its own.
type events struct {
	all  []event
	made uint64
}

func (h *events) push(at int64, what happening, of int32) {
	h.made++
	h.all = append(h.all, event{at: at, order: h.made, of: of, what: what})
	for i := len(h.all) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.all[i].before(&h.all[up]) {
			return
		}
		h.all[i], h.all[up] = h.all[up], h.all[i]
		i = up
	}
}

func (h *events) pop() event {
	top, last := h.all[0], len(h.all)-1
	h.all[0] = h.all[last]
	h.all = h.all[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h.all[child].before(&h.all[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		h.all[i], h.all[least] = h.all[least], h.all[i]
		i = least
	}
}
