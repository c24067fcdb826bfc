package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Names of the providers, as -provider takes them.
const (
	providerAuto    = "auto"
	providerAddress = "address"
	providerDocker  = "docker"
	providerJava    = "java"
)

// cluster is a running Kafka that has proved to be usable.
type cluster interface {
	endpoints() endpoints
	// wait blocks until ctx is done, and returns nil, or until the cluster has
	// ended by itself, and returns an error.
	wait(ctx context.Context) error
	// stop ends everything that was started and returns when it is gone.
	stop() error
}

// provider is one way to get a cluster.
type provider struct {
	name string
	// usable returns nil, or the reason why this machine or this configuration
	// rules the provider out. It is quick.
	usable func(ctx context.Context, cfg config) error
	start  func(ctx context.Context, cfg config, g *guard) (cluster, error)
}

// providers returns all of them, in the order in which they are tried.
func providers() []provider {
	return []provider{addressProvider(), dockerProvider(), javaProvider()}
}

func startCluster(ctx context.Context, cfg config, g *guard) (cluster, error) {
	p, err := pickProvider(ctx, cfg, providers())
	if err != nil {
		return nil, err
	}
	// Once picked, a provider that fails is an error: falling through to the
	// next one would hide, for instance, that AX_KAFKA names a dead cluster.
	c, err := p.start(ctx, cfg, g)
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.name, err)
	}
	return c, nil
}

const installAdvice = `install one of
  Docker                 (Debian: docker.io), with its engine running, for one node
  a JDK 17+ and Maven    (Debian: openjdk-17-jdk-headless maven), for one or three nodes
or set ` + addressEnv + ` to the bootstrap address of a cluster that runs already`

// pickProvider returns the provider that the configuration forces, or else the
// first usable one of the list.
func pickProvider(ctx context.Context, cfg config, list []provider) (provider, error) {
	var reasons []string
	for _, p := range list {
		if cfg.provider != providerAuto && cfg.provider != p.name {
			continue
		}
		err := p.usable(ctx, cfg)
		if err == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			return provider{}, context.Cause(ctx)
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", p.name, err))
	}
	return provider{}, errors.New("no way to get a Kafka cluster:\n  " +
		strings.Join(reasons, "\n  ") + "\n" + installAdvice)
}
