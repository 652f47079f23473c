// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"bytes"
	"testing"
	"time"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestDecideReplaysOnlyTheSameRequest(t *testing.T) {
	kept := at.Add(Retention)
	for _, tt := range []struct {
		name string
		r    Record
		same bool
		now  time.Time
		want Verdict
	}{
		{"answered", Record{Answer: []byte{}, ExpiresAt: kept}, true, at, Replay},
		{"answered, a different request", Record{Answer: []byte("x"), ExpiresAt: kept}, false, at, Conflict},
		{"answered, after 23 hours", Record{Answer: []byte("x"), ExpiresAt: kept}, true, at.Add(23 * time.Hour), Replay},
		{"answered, the last moment", Record{Answer: []byte("x"), ExpiresAt: kept}, true, kept.Add(-1), Replay},
		{"answered, at the end", Record{Answer: []byte("x"), ExpiresAt: kept}, true, kept, Run},
		{"answered, a different request at the end", Record{Answer: []byte("x"), ExpiresAt: kept}, false, kept, Run},
		{"running", Record{Leased: true, ExpiresAt: kept}, true, at, Busy},
		{"running, a different request is a conflict", Record{Leased: true, ExpiresAt: kept}, false, at, Conflict},
		{"running past its retention", Record{Leased: true, ExpiresAt: kept}, true, kept, Busy},
		{"lease lost", Record{ExpiresAt: kept}, true, at, Run},
		{"lease lost, a different request", Record{ExpiresAt: kept}, false, at, Conflict},
	} {
		if got := Decide(tt.r, tt.same, tt.now); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestEndKeepsTheKeyWhileEffectsAreUncertain(t *testing.T) {
	nothing, changed := Effects{}, Effects{Changed: true}
	asked, answered := Effects{Asked: true}, Effects{Asked: true, Answered: true}
	for _, tt := range []struct {
		status int
		did    Effects
		want   Result
	}{
		{200, nothing, KeepAnswer}, {202, answered, KeepAnswer}, {200, changed, KeepAnswer},
		{400, nothing, Release}, {404, nothing, Release}, {409, nothing, Release}, {402, nothing, Release}, {503, nothing, Release},
		{400, answered, KeepAnswer}, {403, answered, KeepAnswer}, {409, answered, KeepAnswer},
		{401, answered, KeepKey}, {402, answered, KeepKey}, {404, answered, KeepKey}, {429, answered, KeepKey},
		{400, asked, KeepKey}, {409, changed, KeepKey},
		{500, answered, KeepKey}, {502, asked, KeepKey}, {503, changed, KeepKey}, {504, asked, KeepKey},
	} {
		if got := DecideEnd(tt.status, false, tt.did); got != tt.want {
			t.Errorf("%d after %+v: %d, want %d", tt.status, tt.did, got, tt.want)
		}
	}
	completed := Effects{Changed: true, Completed: true}
	for status, want := range map[int]Result{200: AnswerKept, 202: AnswerKept, 409: KeepKey, 503: KeepKey} {
		if got := DecideEnd(status, false, completed); got != want {
			t.Errorf("%d after %+v: %d, want %d", status, completed, got, want)
		}
	}
	for _, tt := range []struct {
		did  Effects
		want Result
	}{{nothing, Release}, {changed, KeepKey}, {asked, KeepKey}, {answered, KeepKey}} {
		if got := DecideEnd(409, true, tt.did); got != tt.want {
			t.Errorf("409 from the store after %+v: %d, want %d", tt.did, got, tt.want)
		}
	}
}

func TestRequestTextDistinguishesRequests(t *testing.T) {
	one := Request{"POST", "/v1/tenants/aaaaaaaa-0000-4000-8000-00000000000A/domains", "a=1", []byte(`{"domain":"a.example"}`)}
	id := one
	id.Path = "/v1/tenants/AAAAAAAA-0000-4000-8000-00000000000a/domains"
	if !bytes.Equal(one.Text(), id.Text()) {
		t.Error("the case of an id makes a different request")
	}
	for name, change := range map[string]func(*Request){
		"method":             func(r *Request) { r.Method = "PATCH" },
		"path":               func(r *Request) { r.Path += "/x" },
		"case of the path":   func(r *Request) { r.Path = "/V1" + r.Path[3:] },
		"query":              func(r *Request) { r.Query = "a=2" },
		"query from path":    func(r *Request) { r.Path, r.Query = r.Path+"a", "=1" },
		"white space":        func(r *Request) { r.Body = []byte(`{"domain": "a.example"}`) },
		"body":               func(r *Request) { r.Body = nil },
		"method from a path": func(r *Request) { r.Method, r.Path = "POST/", r.Path[1:] },
	} {
		other := one
		change(&other)
		if bytes.Equal(one.Text(), other.Text()) {
			t.Errorf("requests with a different %s have the same text", name)
		}
	}
}

func TestKeyIDsAreUnique(t *testing.T) {
	ann, bob := KeyID{Account: "ann", Key: [32]byte{1}}, KeyID{Account: "bob", Key: [32]byte{1}}
	other := KeyID{Account: "ann", Key: [32]byte{2}}
	if ann.String() == bob.String() || ann.String() == other.String() {
		t.Error("two keys have the same text")
	}
}
