// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox"
)

// serial makes names that no other test uses.
var serial atomic.Int64

// caller is an account at one sandbox. Every answer it gets is held against
// the OpenAPI document.
type caller struct {
	client
	id, email, key string
}

func ownerAt(t *testing.T, r sandbox.Ready) caller {
	return caller{client{t, r}, r.AccountID, r.UserEmail, r.APIKey}
}

// newCaller makes one more account; more is merged into the call's body.
func (c caller) newCaller(more object) caller {
	c.t.Helper()
	body := object{"email": fmt.Sprintf("owner-%d@e2e.example", serial.Add(1)), "plan": "complete"}
	maps.Copy(body, more)
	made := c.control("POST", "/accounts", body)
	return caller{c.client, made.text("account_id"), body.text("email"), made.text("api_key")}
}

// with is the same account in a subtest.
func (c caller) with(t *testing.T) caller {
	c.t = t
	return c
}

// call sends a request and holds the answer against the document.
func (c caller) call(method, path string, body any) reply {
	c.t.Helper()
	got := c.do(method, c.ready.APIURL+path, c.key, body)
	if err := documented(c.t, method, path, got); err != nil {
		c.t.Errorf("%s %s answered %d: %v\n%s", method, path, got.status, err, got.raw)
	}
	return got
}

// expect is a call whose outcome is known; code is "" for a success.
func (c caller) expect(method, path string, body any, status int, code string) reply {
	c.t.Helper()
	got := c.call(method, path, body)
	if got.status != status || got.code() != code {
		c.t.Errorf("%s %s %v: got %d %q, want %d %q\n%s", method, path, body, got.status, got.code(), status, code, got.raw)
	}
	return got
}

func (c caller) get(path string) reply {
	c.t.Helper()
	return c.expect("GET", path, nil, 200, "")
}

func (c caller) post(path string, body any) reply {
	c.t.Helper()
	return c.expect("POST", path, body, 200, "")
}

func (r reply) code() string {
	code, _ := r.object["code"].(string)
	return code
}

// at goes down into nested objects: "readiness.next_step".
func (o object) at(path string) any {
	var v any = map[string]any(o)
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// sees checks members of an answer, by their paths.
func sees(t *testing.T, o object, want object) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got := o.at(path); fmt.Sprint(got) != fmt.Sprint(want[path]) {
			t.Errorf("%s is %v, want %v", path, got, want[path])
		}
	}
}

// has checks that an object has exactly these members, in any order.
func has(t *testing.T, what string, o any, names string) {
	t.Helper()
	m, ok := o.(map[string]any)
	if isObject, plain := o.(object); plain {
		m, ok = isObject, true
	}
	want := strings.Fields(names)
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(m)); !ok || !slices.Equal(got, want) {
		t.Errorf("%s has %v, want %v", what, got, want)
	}
}
