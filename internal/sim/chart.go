package sim
import "io"
func (r *Result) SVG(w io.Writer) error { return nil }
