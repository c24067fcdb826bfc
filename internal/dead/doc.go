// Package dead reads a domain's dead topic, and drives or purges what is in it.
// It is what "ax dead" runs.
//
// # What is live
//
// Each record of the dead topic is one death; its key names the death and not
// the task. A death that was driven again or purged has a tombstone: the same
// key without a value, in the same partition. Compaction takes both away, at
// some later time. Until then, and where a worker has written a death twice,
// the log holds more than what is live: a record is live if it has a value and
// is the last one of its key in its partition.
//
// # How data flows
//
//	Open:  starts and ends of the logs → all keys up to the ends → an index
//	Each:  all records once more → those that the index lets through → a callback
//
// The first reading keeps a Bloom filter of 8 MiB of the keys that it has seen.
// Only a record whose key was perhaps there before leaves a mark of 16 bytes,
// its key's hash and its offset. The second reading looks each record's hash up
// in the marks: there is none, or it is of this record, where it is the last of
// its key. So memory grows by tombstones and repeats and not by deaths. Two keys
// of one 64-bit hash in one partition would hide one of the two: with ten
// million deaths the chance is about one in a million, and the next reading,
// which hashes with another seed, shows both.
//
// Records are fetched here and not by the client's consumer, one fetch of at
// most 1 MiB at a time, and decoded batch by batch. So what is in memory is known,
// and so is the position in the log, which moves over offsets that compaction
// has emptied and over markers of transactions. A partition is done when the
// position has reached the end of when it was opened, or when its leader knows of
// nothing more below a high watermark that is not below that end.
//
// [Writer] writes one death after the other: the task, its acknowledgement, the
// tombstone, its acknowledgement. What ends a process in between costs one copy
// of one task, and the next run goes on with what is left.
package dead
