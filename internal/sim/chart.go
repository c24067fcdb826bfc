package sim

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/template"
	"time"

	"github.com/axtasks/ax/internal/text"
)

// The chart's places, in pixels.
const (
	chartLeft, chartRight = 70, 830
	legendRow, legendWide = 18, 190
	panelHigh, panelGap   = 220, 60
)

// colours are told apart on white and on black, as is the grey of texts and lines; further lanes take them again.
var colours = []string{"#d1495b", "#e08e2b", "#2f8fbf", "#4c9f70", "#8e6bbf", "#b0713a", "#d46fa8", "#7a8894", "#9aa52f", "#3fa7a0"}

var chart = template.Must(template.New("chart").Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {{.High}}" font-family="sans-serif" font-size="12">
<style>text{fill:#777}.axis{stroke:#888;fill:none}.grid{stroke:#888;stroke-opacity:.25}.weight{stroke:#888;stroke-dasharray:5 4}</style>
<text x="70" y="20" font-size="14">{{html .Title}}</text>
{{- range .Legend}}
<rect x="{{.X}}" y="{{.Y}}" width="11" height="11" fill="{{.Colour}}"/><text x="{{.TextX}}" y="{{.TextY}}">{{html .Text}}</text>
{{- end}}
{{- range .Panels}}
<text x="70" y="{{.TitleY}}">{{html .Title}}</text>
{{- range .Grid}}
<line class="grid" x1="{{.X1}}" y1="{{.Y1}}" x2="{{.X2}}" y2="{{.Y2}}"/><text x="{{.TextX}}" y="{{.TextY}}" text-anchor="{{.Anchor}}">{{html .Text}}</text>
{{- end}}
{{- range .Areas}}
<path fill="{{.Colour}}" fill-opacity=".8" d="{{.Path}}"/>
{{- end}}
{{- range .Lines}}
<path fill="none" stroke="{{.Colour}}" stroke-width="1.8" stroke-linejoin="round" stroke-linecap="round" d="{{.Path}}"/>
{{- end}}
{{- range .Weights}}
<line class="weight" x1="{{.X1}}" y1="{{.Y1}}" x2="{{.X2}}" y2="{{.Y2}}"/>{{if .Text}}<text x="{{.TextX}}" y="{{.TextY}}">{{html .Text}}</text>{{end}}
{{- end}}
<path class="axis" d="M{{.Left}},{{.Top}}V{{.Bottom}}H{{.Right}}"/>
{{- end}}
</svg>
`))

type (
	mark struct {
		X1, Y1, X2, Y2 float64
		TextX, TextY   float64
		Text, Anchor   string
	}
	shape struct{ Colour, Path string }
	entry struct {
		X, Y, TextX, TextY int
		Colour, Text       string
	}
	panel struct {
		Title                            string
		TitleY, Left, Right, Top, Bottom int
		Grid, Weights                    []mark
		Areas, Lines                     []shape
	}
)

// SVG writes a chart of the lanes' shares of the slots' time, with their parts by
// weight as broken lines, and of their waits.
func (r *Result) SVG(w io.Writer) error {
	long := int64(r.ForS * float64(time.Second))
	var legend []entry
	perRow := (chartRight - chartLeft) / legendWide
	for i, l := range r.Lanes {
		x, y := chartLeft+i%perRow*legendWide, 32+i/perRow*legendRow
		legend = append(legend, entry{x, y, x + 16, y + 10, colour(i), text.Clip(l.Lane, 26)})
	}
	top := 32 + (len(r.Lanes)+perRow-1)/perRow*legendRow + 28
	shares := r.sharePanel(top, long)
	waits := r.waitPanel(top+panelHigh+panelGap, long)
	return chart.Execute(w, map[string]any{
		"High": waits.Bottom + 30, "Legend": legend, "Panels": []panel{shares, waits},
		"Title": fmt.Sprintf("domain %s: %d slots, %s", r.Domain, r.Slots, seconds(r.ForS)),
	})
}

// verb begins a path, or goes on.
var verb = map[bool]string{true: "M", false: "L"}

func colour(lane int) string { return colours[lane%len(colours)] }

func newPanel(title string, top int, long int64) panel {
	p := panel{Title: title, TitleY: top - 8, Left: chartLeft, Right: chartRight, Top: top, Bottom: top + panelHigh}
	step := int64(tick(time.Duration(long)))
	for at := int64(0); at <= long; at += step {
		x := p.x(at, long)
		p.Grid = append(p.Grid, mark{x, float64(top), x, float64(p.Bottom), x, float64(p.Bottom + 16), text.Duration(time.Duration(at)), "middle"})
	}
	return p
}

// tick returns a round duration that fits into d up to eight times.
func tick(d time.Duration) time.Duration {
	const s, m, h = time.Second, time.Minute, time.Hour
	for _, t := range []time.Duration{s, 2 * s, 5 * s, 10 * s, 15 * s, 30 * s, m, 2 * m, 5 * m, 10 * m, 15 * m, 30 * m, h, 2 * h, 6 * h, 12 * h, 24 * h} {
		if t >= d/8 && d >= 8*s {
			return t
		}
	}
	unit := time.Duration(math.Pow10(int(math.Ceil(math.Log10(float64(d) / 8)))))
	return max(unit, 1)
}

func (p *panel) x(at, long int64) float64 {
	return place(float64(p.Left) + float64(p.Right-p.Left)*float64(at)/float64(long))
}

// y is the place of a part of the panel's height.
func (p *panel) y(part float64) float64 {
	return place(float64(p.Bottom) - float64(p.Bottom-p.Top)*min(max(part, 0), 1))
}

func place(x float64) float64 { return math.Round(x*10) / 10 }

// row is a line across with what it means at its left.
func (p *panel) row(part float64, name string) {
	y := p.y(part)
	p.Grid = append(p.Grid, mark{float64(p.Left), y, float64(p.Right), y, float64(p.Left - 6), y + 4, name, "end"})
}

func (r *Result) sharePanel(top int, long int64) panel {
	p := newPanel("part of the slots' time, the broken lines by weight", top, long)
	for _, part := range []float64{0, 0.25, 0.5, 0.75, 1} {
		p.row(part, fmt.Sprintf("%.0f%%", 100*part))
	}
	below := make([]float64, len(r.line.parts)) // what the lanes under this one have
	for lane := range r.Lanes {
		var up, down strings.Builder
		for i := range r.line.parts {
			from, to := int64(i)*r.line.width, min(int64(i+1)*r.line.width, long)
			high := below[i] + float64(r.line.parts[i].used[lane])/(float64(to-from)*float64(r.Slots))
			fmt.Fprintf(&up, "%s%v,%v H%v", verb[i == 0], p.x(from, long), p.y(high), p.x(to, long))
			below[i], high = high, below[i]
			// The way back goes from right to left, so it is put together in reverse.
			back := fmt.Sprintf("L%v,%v H%v", p.x(to, long), p.y(high), p.x(from, long)) + down.String()
			down.Reset()
			down.WriteString(back)
		}
		p.Areas = append(p.Areas, shape{colour(lane), up.String() + down.String() + "Z"})
	}
	sum, last := 0.0, math.Inf(1)
	for _, l := range r.Lanes {
		sum += l.Part / 100
		m := mark{X1: float64(p.Left), X2: float64(p.Right), Y1: p.y(sum), Y2: p.y(sum)}
		m.TextX, m.TextY = float64(p.Right+4), p.y(sum-l.Part/200)+4
		if last-m.TextY > 11 { // else they would lie on one another
			m.Text, last = points(l.Part), m.TextY
		}
		p.Weights = append(p.Weights, m)
	}
	return p
}

func (r *Result) waitPanel(top int, long int64) panel {
	p := newPanel("p99 of the wait for a slot", top, long)
	waits := make([][]time.Duration, len(r.Lanes)) // -1: none has started
	least, most := time.Duration(math.MaxInt64), time.Millisecond
	for lane := range r.Lanes {
		for i := range r.line.parts {
			d, ok := r.line.parts[i].waits[lane].p99()
			if !ok {
				d = -1
			} else {
				d = max(d, time.Microsecond)
				least, most = min(least, d), max(most, d)
			}
			waits[lane] = append(waits[lane], d)
		}
	}
	low, high := math.Floor(math.Log10(float64(min(least, most/10)))), math.Ceil(math.Log10(float64(most)))
	for e := low; e <= high; e++ {
		p.row((e-low)/(high-low), text.Duration(time.Duration(math.Pow10(int(e)))))
	}
	for lane, all := range waits {
		var path strings.Builder
		for i, d := range all {
			if d < 0 {
				continue
			}
			from, to := int64(i)*r.line.width, min(int64(i+1)*r.line.width, long)
			y := p.y((math.Log10(float64(d)) - low) / (high - low))
			fmt.Fprintf(&path, "%s%v,%v H%v", verb[i == 0 || all[i-1] < 0], p.x(from, long), y, p.x(to, long))
		}
		if path.Len() > 0 {
			p.Lines = append(p.Lines, shape{colour(lane), path.String()})
		}
	}
	return p
}
