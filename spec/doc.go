// Package spec reads an [ax.Domain] from a YAML file.
//
// One file describes a domain. Provisioning, producer, mover and worker read
// the same file, so they can't disagree:
//
//	domain, err := spec.Load("orders.yaml")
//
// # How data flows
//
// [Load] takes what the file says, lays the environment over it, then the
// overrides that the caller hands in (flags), fills what is still zero with
// defaults and validates the result:
//
//	file → AX_* variables → overrides → defaults → Domain.Validate
//
// [Parse] does the same with bytes in memory and without the environment.
// [Marshal] goes the other way and prints a domain as it takes effect.
//
// # A complete file
//
// Only the domain's name is required. All keys, with their defaults or an
// example:
//
//	domain: orders             # part of all topic and group names
//	prefix: staging.           # put before topic names; default none
//	kafka:
//	  brokers: [kafka-1:9092, kafka-2:9092]   # or AX_KAFKA=kafka-1:9092,kafka-2:9092
//	  tls:                     # encrypts when enabled, or when any key is set
//	    enabled: true          # AX_TLS_ENABLED
//	    ca_file: ca.pem        # AX_TLS_CA_FILE; default the system's
//	    cert_file: client.pem  # AX_TLS_CERT_FILE
//	    key_file: client.key   # AX_TLS_KEY_FILE
//	    server_name: kafka     # AX_TLS_SERVER_NAME; default the name dialled
//	  sasl:
//	    mechanism: SCRAM-SHA-512   # AX_SASL_MECHANISM; or PLAIN, SCRAM-SHA-256
//	    user: orders               # AX_SASL_USER
//	    password_file: password    # AX_SASL_PASSWORD_FILE; or password, AX_SASL_PASSWORD
//	  group_protocol: classic  # AX_GROUP_PROTOCOL; or consumer (KIP-848, the session is the broker's)
//	durability: safe           # or fast: may be lost with a broker
//	replication: 3
//	lanes:                     # the most urgent first
//	  - name: critical
//	    weight: 8              # share of worker time when all lanes have work
//	    max_wait: 1s           # past this, a waiting head gets aging credits
//	    max_gap: 10s           # without a start for so long, and nothing running: next; default 10 × max_wait
//	    reserve: 1             # slots that later lanes can't hold together
//	    partitions: 6
//	  - name: normal
//	    weight: 2
//	    max_wait: 15s
//	  - name: ledger
//	    weight: 1
//	    order: key             # tasks of one key run one at a time, in order
//	  - name: export
//	    weight: 1
//	    limit: 12              # how many run at once in the whole cluster
//	default_lane: normal
//	sharing:
//	  aging: 0.1               # of the time, for lanes past their max_wait; -1 for none
//	  strict: false            # true: in the order of the lanes, not by weight
//	kinds:
//	  order.close:
//	    lane: critical         # default: default_lane
//	    timeout: 1m
//	    attempts: 10
//	    concurrency: 50        # in one worker process; default no limit
//	    expires: 24h           # after its due time; default never
//	    on_timeout: retry      # or dead
//	    on_interrupt: requeue  # by a stop whose grace is over; or dead, drop
//	    on_deaf: dead          # its handler does not return; or retry
//	    retry_budget:          # in one worker; past it retries wait for longer
//	      per_second: 100
//	      ratio: 0.5           # and so many for each run that succeeds
//	    backoff:               # attempt n waits 0 to min(max, base × factor^(n-1))
//	      base: 1s
//	      factor: 2
//	      max: 10m
//	  order.export:
//	    lane: export
//	    backoff:
//	      delays: [10s, 1m, 10m]   # instead, without jitter; the last repeats
//	delay:
//	  tiers: [5s, 30s, 1m, 5m, 15m, 1h, 6h, 24h]
//	  partitions: 3
//	  window: 1s
//	  lead: 50ms
//	  near_partitions: 6
//	  rate: 5000               # delayed tasks a second
//	  buffer: 20000            # records that a mover holds per partition
//	  horizon: 9600h           # the longest delay
//	  common: [10m, 24h, 168h] # what tasks usually wait; ax topics plan proposes tiers for it
//	max_payload: 983040
//	retention:
//	  tasks: 720h              # default 0s, never
//	  outage: 168h
//	trim:                      # by "ax trim", or a mover with --trim
//	  every: 1m
//	  groups: [audit]          # that read the lanes beside ax's own; default none
//
// Durations are Go's: 300ms, 30s, 1h30m; a day is 24h. Texts need quotes only
// where YAML would take them for something else than a scalar. A key without
// a value counts as absent. Anchors, aliases and merge keys work, within
// bounds; tags and a second document are refused.
//
// # Errors
//
// Reading is strict: an unknown or repeated key, a wrong type and an
// impossible value are errors. All faults come at once, in the order of the
// lines, each an [*Error]:
//
//	orders.yaml:12: lanes[1].weight: "heavy": want a whole number
//
// The text of a secret is in no error.
package spec
