// Package kafka turns a domain's connection settings into client options, in
// one place, so that TLS and SASL reach every client that ax makes, and turns
// the client's errors into the sentinels of the root package.
//
// [Options] gives what all clients share. A role adds its own options after
// them, and the user's come last. [Watch] remembers why a broker could not be
// reached, since a client that retries in the background only says that time
// ran out. [Ping] and [TopicIDs] are asked before a role starts: bad
// credentials or a missing topic otherwise show as silence.
package kafka
