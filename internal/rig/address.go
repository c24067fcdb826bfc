package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pingTimeout bounds the question whether a given cluster is there at all.
const pingTimeout = 10 * time.Second

// addressProvider uses the cluster that the environment names.
func addressProvider() provider {
	return provider{
		name: providerAddress,
		usable: func(_ context.Context, cfg config) error {
			if cfg.proxy {
				return errors.New("does not support -proxy")
			}
			if len(seeds(os.Getenv(addressEnv))) == 0 {
				return errors.New(addressEnv + " is not set")
			}
			return nil
		},
		start: func(ctx context.Context, _ config, _ *guard) (cluster, error) {
			return useAddress(ctx, os.Getenv(addressEnv))
		},
	}
}

// givenCluster runs elsewhere and is none of the rig's business.
type givenCluster struct{ bootstrap string }

func useAddress(ctx context.Context, address string) (cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds(address)...), kgo.RequestRetries(0))
	if err != nil {
		return nil, fmt.Errorf("client of %s=%s: %w", addressEnv, address, err)
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return nil, fmt.Errorf("ping %s=%s: %w", addressEnv, address, err)
	}
	return givenCluster{address}, nil
}

func (c givenCluster) endpoints() endpoints {
	return endpoints{bootstrap: c.bootstrap, inherited: true}
}

func (c givenCluster) wait(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (c givenCluster) stop() error { return nil }

// seeds splits a list of addresses, without the empty ones.
func seeds(addresses string) []string {
	return strings.FieldsFunc(addresses, func(r rune) bool { return r == ',' || r == ' ' })
}
