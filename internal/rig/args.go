package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

const defaultKafkaVersion = "4.4.0"

// config is what the command line asks for.
type config struct {
	nodes        int
	provider     string // one of the provider names, or auto
	kafkaVersion string
	versionAsked bool // -kafka-version was given
	acl          bool
	proxy        bool
	ownDisk      int // the node that has one; 0: none
	timeout      time.Duration
	set          map[string]string // extra broker properties
	command      []string          // empty: print the address and wait
}

// A Maven version; it becomes part of a file name and of an XML document.
var versionPattern = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[A-Za-z0-9.]+)?$`)

// parseArgs reads the arguments after the program's name. It writes the usage
// to stderr itself when asked for, and then returns flag.ErrHelp.
func parseArgs(args []string, stderr io.Writer) (config, error) {
	cfg := config{set: map[string]string{}}
	fs := flag.NewFlagSet("rig", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.IntVar(&cfg.nodes, "nodes", 1, "`number` of nodes, 1 or 3; each is broker and controller")
	fs.StringVar(&cfg.provider, "provider", providerAuto,
		"where the cluster comes from: auto, address, docker or java")
	fs.StringVar(&cfg.kafkaVersion, "kafka-version", defaultKafkaVersion, "Kafka `version`, for java")
	fs.BoolVar(&cfg.acl, "acl", false, "turn the authorizer on; super users are ANONYMOUS and "+adminUser)
	fs.BoolVar(&cfg.proxy, "proxy", false, "put a proxy between the clients and each node, for java; see AX_KAFKA_CONTROL")
	fs.IntVar(&cfg.ownDisk, "own-disk", 0,
		"the `node` whose data lie on a disk of its own that can be made full, for java on Linux, as root; see AX_KAFKA_CONTROL")
	fs.DurationVar(&cfg.timeout, "timeout", 90*time.Second,
		"how long a started cluster may take to be usable (downloads not counted)")
	fs.Func("set", "extra broker property `key=value`, repeatable", func(s string) error {
		k, v, ok := strings.Cut(s, "=")
		if !ok || strings.TrimSpace(k) == "" {
			return errors.New("want key=value")
		}
		cfg.set[strings.TrimSpace(k)] = v
		return nil
	})

	// The flag package would accept a command without "--" as well; being
	// strict turns "rig -nodes 3 -ac" and forgotten dashes into errors.
	if i := slices.Index(args, "--"); i >= 0 {
		cfg.command = args[i+1:]
		if len(cfg.command) == 0 {
			return cfg, errors.New("no command after --")
		}
		args = args[:i]
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, "usage: rig [flags] [-- COMMAND ARGS...]\n")
			fs.SetOutput(stderr)
			fs.PrintDefaults()
		}
		return cfg, err
	}
	fs.Visit(func(f *flag.Flag) {
		if f.Name == "kafka-version" {
			cfg.versionAsked = true
		}
	})
	return cfg, cfg.validate(fs.Args())
}

func (c config) validate(rest []string) error {
	var errs []error
	if len(rest) > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q: a command goes after --", rest[0]))
	}
	if c.nodes != 1 && c.nodes != 3 {
		errs = append(errs, fmt.Errorf("-nodes %d: want 1 or 3", c.nodes))
	}
	if !slices.Contains([]string{providerAuto, providerAddress, providerDocker, providerJava}, c.provider) {
		errs = append(errs, fmt.Errorf("-provider %q: want auto, address, docker or java", c.provider))
	}
	if !versionPattern.MatchString(c.kafkaVersion) {
		errs = append(errs, fmt.Errorf("-kafka-version %q: want a version like %s", c.kafkaVersion, defaultKafkaVersion))
	}
	if c.proxy && (c.provider == providerAddress || c.provider == providerDocker) {
		errs = append(errs, fmt.Errorf("-proxy: provider %s does not support it", c.provider))
	}
	if c.ownDisk < 0 || c.ownDisk > c.nodes {
		errs = append(errs, fmt.Errorf("-own-disk %d: want a node from 1 to %d", c.ownDisk, c.nodes))
	}
	if c.ownDisk > 0 && (c.provider == providerAddress || c.provider == providerDocker) {
		errs = append(errs, fmt.Errorf("-own-disk: provider %s does not support it", c.provider))
	}
	if c.timeout <= 0 {
		errs = append(errs, fmt.Errorf("-timeout %s: want a positive duration", c.timeout))
	}
	return errors.Join(errs...)
}
