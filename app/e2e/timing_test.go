// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// timed is one class of operations, with the parameter that is not the
// caller's.
type timed struct {
	op    operation
	param string
}

var timedClasses = []timed{
	{operation{"GET", "/v1/tenants/{tenant_id}"}, "tenant_id"},
	{operation{"GET", "/v1/tenants/{tenant_id}/domains/{domain_name}/dns"}, "domain_name"},
	{operation{"GET", "/v1/domains/{domain_id}/dns"}, "domain_id"},
	{operation{"GET", "/v1/tenants/{tenant_id}/mailboxes/{mailbox_id}/usage"}, "mailbox_id"},
	{operation{"POST", "/v1/tenants/{tenant_id}/domains"}, "tenant_id"},
}

// timedPairs is how often each kind is asked in a class, in a soak.
const timedPairs = 20_000

// imposters are values of a parameter that must take the same time: of one length,
// so that only what is behind them differs.
func imposters(param, theirs string) map[string]string {
	if param == "domain_name" {
		n := len(theirs)
		return map[string]string{"foreign": theirs, "unknown": strings.Repeat("u", n-5) + ".test", "malformed": strings.Repeat("m", n-6) + "-.test"}
	}
	return map[string]string{"foreign": theirs, "unknown": "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55", "malformed": "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6axx"}
}

// stopwatch sends requests over one connection and takes their time.
type stopwatch struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	host string
}

func newStopwatch(t *testing.T, api string) *stopwatch {
	t.Helper()
	host := strings.TrimPrefix(api, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &stopwatch{t, conn, bufio.NewReader(conn), host}
}

func (s *stopwatch) take(method, path, key string, body any) (time.Duration, int) {
	s.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", method, path, s.host, key)
	if method == http.MethodGet {
		b.WriteString("\r\n")
	} else {
		payload, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&b, "Idempotency-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", rand.Text(), len(payload), payload)
	}
	request := []byte(b.String())
	_ = s.conn.SetDeadline(time.Now().Add(hang))
	began := time.Now()
	if _, err := s.conn.Write(request); err != nil {
		s.t.Fatal(err)
	}
	answer, err := http.ReadResponse(s.in, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		s.t.Fatal(err)
	}
	return time.Since(began), answer.StatusCode
}

// sample asks all kinds by turns, in an order that changes each time, and
// gives the microseconds that each took.
func (c timed) sample(s *stopwatch, own, other estate, rounds int) map[string][]float64 {
	s.t.Helper()
	paths, names := map[string]string{}, []string{}
	for kind, value := range imposters(c.param, other.ids[c.param]) {
		ids := maps.Clone(own.ids)
		ids[c.param] = value
		paths[kind], names = fill(c.op.path, ids), append(names, kind)
	}
	warmUp := rounds / 100
	taken := map[string][]float64{}
	for round := range warmUp + rounds {
		mathrand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, kind := range names {
			took, status := s.take(c.op.method, paths[kind], own.key, bodies[c.op.method+" "+c.op.path])
			if status != http.StatusNotFound {
				s.t.Fatalf("%s %s is answered %d", c.op.method, paths[kind], status)
			}
			if round >= warmUp {
				taken[kind] = append(taken[kind], float64(took.Nanoseconds())/1000)
			}
		}
	}
	return taken
}

// telltales measures a class and tells which pairs of kinds differ.
func (c timed) telltales(s *stopwatch, own, other estate, rounds int) (differ []string) {
	s.t.Helper()
	taken := c.sample(s, own, other, rounds)
	names := slices.Sorted(maps.Keys(taken))
	for i, a := range names {
		for _, b := range names[i+1:] {
			between := contrastOf(taken[a], taken[b])
			s.t.Logf("%s %s: %s and %s: medians %.1f and %.1f µs, t %.2f, gap %.2f %%", c.op.method, c.op.path, a, b,
				core(taken[a])[len(core(taken[a]))/2], core(taken[b])[len(core(taken[b]))/2], between.t, 100*between.gap)
			if between.tells() {
				differ = append(differ, a+" and "+b)
			}
		}
	}
	return differ
}

// TestOwnershipTakesTheSameTime: what is another account's cannot be told from
// what does not exist or cannot exist by how long the refusal takes. A soak
// decides it; a short run shows only that the requests are the right ones. A
// difference that the code makes is there each time, so it must show twice. No
// other test runs beside a soak.
func TestOwnershipTakesTheSameTime(t *testing.T) {
	databases, rounds := map[string][]string{"sqlite": nil}, timedPairs
	if soak {
		databases["postgres"] = []string{"--database", testserver.Database(t)}
	} else {
		t.Parallel()
		rounds = 3
	}
	for name, args := range databases {
		t.Run(name, func(t *testing.T) {
			_, ready := startDev(t, binary(t, release), t.TempDir(), nil, append(args, "--no-seed")...)
			c := ownerAt(t, ready)
			own, other := c.estate(), c.estate()
			for _, class := range timedClasses {
				s := newStopwatch(t, ready.APIURL)
				first := class.telltales(s, own, other, rounds)
				if !soak || len(first) == 0 {
					continue
				}
				for _, pair := range class.telltales(s, own, other, rounds) {
					if slices.Contains(first, pair) {
						t.Errorf("%s %s: %s can be told apart", class.op.method, class.op.path, pair)
					}
				}
			}
		})
	}
}
