package delay

import (
	"encoding/json"
	"net/http"
)

// Handler serves what an operator asks of this mover:
//
//	GET  /status                Status, as JSON
//	POST /tiers/{tier}/pause    Pause; 404 for a tier that is unknown
//	POST /tiers/{tier}/resume   Resume
//
// It asks nobody who they are: serve it on an address that only operators
// reach. It may be used before Run and after it.
func (m *Mover) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { m.writeStatus(w) })
	command := func(do func(string) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := do(r.PathValue("tier")); err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			m.writeStatus(w)
		}
	}
	mux.HandleFunc("POST /tiers/{tier}/pause", command(m.Pause))
	mux.HandleFunc("POST /tiers/{tier}/resume", command(m.Resume))
	return mux
}

func (m *Mover) writeStatus(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(m.Status())
}
