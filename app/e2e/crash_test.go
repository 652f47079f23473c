// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var soak = os.Getenv("TENANTRY_SOAK") != ""

// seeded is the randomness of a sample. The seed of a failed run goes into
// TENANTRY_SEED to see it again.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given, err := strconv.ParseUint(os.Getenv("TENANTRY_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("TENANTRY_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

var hitCall = regexp.MustCompile(`failpoint\.Hit\("([^"]+)"\)`)

// failpointNames are all failpoints that the source has.
func failpointNames(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, hit := range hitCall.FindAllStringSubmatch(string(source), -1) {
			names = append(names, hit[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) < 30 {
		t.Fatalf("only %d failpoints in the source: %v", len(names), names)
	}
	return names
}

// everyWrite are the steps that reach every failpoint: the main job, then
// what else writes.
func everyWrite(e *errand) []step {
	managed := e.ready.Tenants[1].TenantID
	plain := func(r request) func(*errand) request { return func(*errand) request { return r } }
	return append(slices.Concat(mainJob(), automaticDNS(e), sendingSteps()),
		limit(e, 5),
		step{name: "send", ask: plain(request{method: "POST", path: "/messages", control: true,
			body: object{"mailbox": "max@" + e.domain, "count": 9}})},
		// A run that cannot set its rule leaves the next one something to settle.
		step{name: "trouble", ask: plain(request{method: "POST", path: "/faults", control: true,
			body: object{"provider": "microsoft365", "operation": "Set-TransportRule", "kind": "status", "status": 400, "times": 1}})},
		step{name: "enforce in trouble", ask: plain(request{method: "POST", path: "/enforcement/run", control: true})},
		step{name: "no trouble", ask: plain(request{method: "DELETE", path: "/faults", control: true})},
		enforce("blocked"), limit(e, 25), enforce("unblocked", "blocked"),
		step{name: "check", ask: plain(request{method: "GET", path: "/v1/tenants"}), after: func(e *errand, _ reply) { e.check() }},
		step{name: "assign", ask: plain(request{method: "POST", path: "/managed", control: true,
			body: object{"tenant_id": managed, "account_id": e.ready.AccountID}})},
		step{name: "withdraw", ask: plain(request{method: "DELETE", path: "/managed/" + managed, control: true, gone: 404})},
		step{name: "rotate", ask: plain(request{method: "POST", path: "/api-key/rotate?user_email=" + e.ready.UserEmail}),
			after: func(e *errand, got reply) { e.ready.APIKey = got.text("api_key") }},
		step{name: "fill", ask: plain(request{method: "GET", path: "/v1/tenants"}), after: func(e *errand, got reply) {
			e.expect("tenants after the withdrawal", got.text("count"), 1)
			e.fill()
		}},
		step{name: "delete", ask: plain(request{method: "DELETE", path: e.api("")}),
			after: func(e *errand, got reply) { e.expect("deletion", got.text("status"), "deleted") }},
		step{name: "nothing is left", ask: plain(request{method: "GET", path: "/v1/tenants"}),
			after: func(e *errand, got reply) { e.expect("tenants after the deletion", got.text("count"), 0) }})
}

// limit is the step that limits the tenant's mailboxes.
func limit(e *errand, perDay int) step {
	return step{name: "limit", ask: func(*errand) request {
		return request{method: "POST", path: e.api("/mailbox-limits"), body: object{"daily_send_limit": perDay}}
	}, after: func(e *errand, got reply) { e.expect("limit", got.text("status"), "provisioned") }}
}

// enforce is the step in which limits are enforced. It leaves these events,
// newest first, and the platform's rule as the last one says.
func enforce(events ...string) step {
	return step{name: "enforce", ask: func(*errand) request {
		return request{method: "POST", path: "/enforcement/run", control: true}
	}, after: func(e *errand, _ reply) {
		h := e.holding()
		var told []string
		for _, event := range h.get("/v1/enforcement/events").objects("events") {
			told = append(told, event.text("action_taken"))
		}
		e.expect("events", told, events)
		for _, rule := range e.control("GET", "/tenants/"+e.tenant, nil).objects("rules") {
			e.expect("the rule is on", rule["enabled"], events[0] == "blocked")
		}
	}}
}

// TestCrashAtEveryPoint walks through every write once and kills the service at one
// failpoint after the other: at all of them in a soak, otherwise at a sample. Each
// request is sent again until it succeeds, and nothing exists twice.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	e := setOut(newMortal(t, binary(t, failpoints), sample(t, failpointNames(t), 10)))
	e.run(everyWrite(e), undisturbed(e))
	if len(e.armed) > 0 {
		t.Errorf("no write reaches these failpoints: %v", e.armed)
	}
	t.Logf("%d deaths", len(e.hit))
}

// sample returns all elements in a soak, else n random ones.
func sample[T any](t *testing.T, all []T, n int) []T {
	t.Helper()
	if soak {
		return all
	}
	few := slices.Clone(all)
	seeded(t).Shuffle(len(few), func(i, j int) { few[i], few[j] = few[j], few[i] })
	return few[:n]
}

// TestCrashAtOnePoint kills the service at one failpoint of an errand that
// nothing else disturbs: all failpoints in a soak, else a sample.
func TestCrashAtOnePoint(t *testing.T) {
	t.Parallel()
	for _, name := range sample(t, failpointNames(t), 2) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setOut(newMortal(t, binary(t, failpoints), []string{name}))
			e.run(everyWrite(e), undisturbed(e))
			e.expect("deaths", e.hit, []string{name})
		})
	}
}
