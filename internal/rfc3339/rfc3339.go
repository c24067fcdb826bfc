// Package rfc3339 reads instants as package time does, and what ax itself
// writes in a third of the time: a record has up to four of them. To write them,
// package time is as fast as can be.
package rfc3339

import "time"

// Parse returns the instant, in UTC, that time.Parse reads, or its error.
func Parse(v []byte) (time.Time, error) {
	if t, ok := parse(v); ok {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339Nano, string(v))
	return t.UTC(), err
}

// parse reads what time.Time.Format writes in UTC, and leaves all else to
// package time.
func parse(v []byte) (t time.Time, ok bool) {
	const shortest, longest = len("2006-01-02T15:04:05Z"), len("2006-01-02T15:04:05.999999999Z")
	if len(v) < shortest || len(v) > longest ||
		v[4] != '-' || v[7] != '-' || v[10] != 'T' || v[13] != ':' || v[16] != ':' || v[len(v)-1] != 'Z' {
		return t, false
	}
	year := pair(v, 0)*100 + pair(v, 2)
	month, day, hour, minute, second := pair(v, 5), pair(v, 8), pair(v, 11), pair(v, 14), pair(v, 17)
	// A pair that is none is above all of these bounds.
	if year < 1970 || year > 9999 || month < 1 || month > 12 || day < 1 || day > 28 && !inMonth(year, month, day) ||
		hour > 23 || minute > 59 || second > 59 {
		return t, false
	}
	var ns uint
	if fraction := v[shortest-1 : len(v)-1]; len(fraction) > 0 {
		if fraction[0] != '.' || len(fraction) == 1 {
			return t, false
		}
		for _, c := range fraction[1:] {
			if c -= '0'; c > 9 {
				return t, false
			}
			ns = ns*10 + uint(c)
		}
		ns *= powers[10-len(fraction)]
	}
	seconds := ((days(year, month, day)*24+hour)*60+minute)*60 + second
	return time.Unix(int64(seconds), int64(ns)).UTC(), true
}

// days returns the days from 1970 to a date of a later year. A year is counted
// from March, which puts the leap day at its end.
func days(year, month, day uint) uint {
	if month < 3 {
		year, month = year-1, month+12
	}
	return year*365 + year/4 - year/100 + year/400 + (153*month-457)/5 + day - 719_469
}

// inMonth reports whether a month has this day.
func inMonth(year, month, day uint) bool {
	switch month {
	case 2:
		return day <= 28 || day == 29 && year%4 == 0 && (year%100 != 0 || year%400 == 0)
	case 4, 6, 9, 11:
		return day <= 30
	}
	return day <= 31
}

// powers of ten.
var powers = [...]uint{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

// pair returns the number that two digits at i stand for, or one above 9999.
func pair(v []byte, i int) uint {
	tens, ones := uint(v[i])-'0', uint(v[i+1])-'0'
	if tens > 9 || ones > 9 {
		return 10_000
	}
	return tens*10 + ones
}
