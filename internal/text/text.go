// Package text bounds and checks the short texts that travel in headers, error
// messages and logs, and prints durations as people write them.
package text

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Clip returns s cut to at most n bytes, at a rune boundary, with "…" in place
// of what is missing, and with invalid UTF-8 replaced.
func Clip(s string, n int) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if len(s) <= n {
		return s
	}
	const more = "…"
	if n < len(more) {
		return ""
	}
	cut := n - len(more)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + more
}

// Fault returns what is wrong with s as a name of at most n bytes, or "". A
// name is printable UTF-8 without spaces, so that it can neither break a log
// line nor smuggle a second header into a text protocol.
func Fault(s string, n int) string {
	if s == "" {
		return "is empty"
	}
	if len(s) > n {
		return "is too long"
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f {
			return "holds a space or a control character"
		} else if c >= utf8.RuneSelf {
			return faultUnicode(s)
		}
	}
	return ""
}

func faultUnicode(s string) string {
	if !utf8.ValidString(s) {
		return "is not UTF-8"
	}
	for _, r := range s {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return "holds a space or a control character"
		}
	}
	return ""
}

// Duration returns d as Go prints it but for its zero units: 1h and not 1h0m0s.
// [time.ParseDuration] reads it.
func Duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-len("0s")]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-len("0m")]
	}
	return s
}
