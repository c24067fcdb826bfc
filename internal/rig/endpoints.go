package main

import (
	"fmt"
	"slices"
	"strings"
)

// addressEnv both names the cluster to use and hands over the one started. All
// the other variables begin with it.
const addressEnv = "AX_KAFKA"

// endpoints is what a user of a cluster has to know.
type endpoints struct {
	bootstrap string          // comma-separated host:port
	secure    *secureEndpoint // nil: none
	pids      []int           // by node id; none if the brokers are not local processes
	control   string          // path of the control socket; empty: none
	// inherited says that the cluster is somebody else's: what the environment
	// says about it besides the address stays in force.
	inherited bool
}

// secureEndpoint is what a client of the SASL_SSL listeners needs.
type secureEndpoint struct {
	bootstrap     string
	caFile        string
	password      string // of appUser
	adminPassword string // of adminUser
}

type variable struct{ name, value string }

// variables returns the facts under the names that doc.go lists.
func (e endpoints) variables() []variable {
	vs := []variable{{addressEnv, e.bootstrap}}
	if s := e.secure; s != nil {
		vs = append(vs,
			variable{addressEnv + "_SECURE", s.bootstrap},
			variable{addressEnv + "_SECURE_CA", s.caFile},
			variable{addressEnv + "_SECURE_USER", appUser},
			variable{addressEnv + "_SECURE_PASSWORD", s.password},
			variable{addressEnv + "_SECURE_ADMIN_USER", adminUser},
			variable{addressEnv + "_SECURE_ADMIN_PASSWORD", s.adminPassword})
	}
	if len(e.pids) > 0 {
		pids := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(e.pids)), ","), "[]")
		vs = append(vs, variable{addressEnv + "_PIDS", pids})
	}
	if e.control != "" {
		vs = append(vs, variable{addressEnv + "_CONTROL", e.control})
	}
	return vs
}

// environ returns base with the cluster's variables in it. Variables that
// describe another cluster are taken out, lest a test mixes the two.
func (e endpoints) environ(base []string) []string {
	env := slices.Clone(base)
	if !e.inherited {
		env = slices.DeleteFunc(env, func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return name == addressEnv || strings.HasPrefix(name, addressEnv+"_")
		})
	}
	for _, v := range e.variables() {
		env = append(env, v.name+"="+v.value)
	}
	return env
}

// shellQuote makes s one word of a POSIX shell, whatever is in it.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
