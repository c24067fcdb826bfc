// Package telemetry holds all that ax says through OpenTelemetry: names,
// attributes and instruments after version 1.43.0 of the semantic conventions
// for messaging, pinned here and nowhere else.
//
// One task is one story. Its creation context, the traceparent that the
// producer injects, travels unchanged over delays and retries. Whoever writes
// the record again puts its own context into the header ax-hop. Each span
// links to both; none is a child of the submit, since a trace that lasts a day
// breaks sampling and every viewer.
//
// Only the API is linked: without an SDK all of this costs a few nanoseconds.
// Attributes never carry ids, keys or error texts; spans carry the task id.
package telemetry
