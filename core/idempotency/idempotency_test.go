// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"bytes"
	"testing"
	"time"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestJudge(t *testing.T) {
	kept := at.Add(Kept)
	for _, tt := range []struct {
		name string
		r    Record
		same bool
		now  time.Time
		want Verdict
	}{
		{"answered", Record{Answer: []byte{}, ExpiresAt: kept}, true, at, Replay},
		{"answered, another request", Record{Answer: []byte("x"), ExpiresAt: kept}, false, at, Conflict},
		{"answered, after 23 hours", Record{Answer: []byte("x"), ExpiresAt: kept}, true, at.Add(23 * time.Hour), Replay},
		{"answered, the last moment", Record{Answer: []byte("x"), ExpiresAt: kept}, true, kept.Add(-1), Replay},
		{"answered, at the end", Record{Answer: []byte("x"), ExpiresAt: kept}, true, kept, Run},
		{"answered, another request at the end", Record{Answer: []byte("x"), ExpiresAt: kept}, false, kept, Run},
		{"running", Record{Leased: true, ExpiresAt: kept}, true, at, Busy},
		{"running, another request wins over busy", Record{Leased: true, ExpiresAt: kept}, false, at, Conflict},
		{"running past its time", Record{Leased: true, ExpiresAt: kept}, true, kept, Busy},
		{"owner gone", Record{ExpiresAt: kept}, true, at, Run},
		{"owner gone, another request", Record{ExpiresAt: kept}, false, at, Conflict},
	} {
		if got := Judge(tt.r, tt.same, tt.now); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestEnd(t *testing.T) {
	nothing, changed := Effects{}, Effects{Changed: true}
	asked, answered := Effects{Asked: true}, Effects{Asked: true, Answered: true}
	for _, tt := range []struct {
		status int
		did    Effects
		want   Ending
	}{
		{200, nothing, Keep}, {202, answered, Keep}, {200, changed, Keep},
		{400, nothing, Release}, {404, nothing, Release}, {409, nothing, Release}, {402, nothing, Release}, {503, nothing, Release},
		{400, answered, Keep}, {403, answered, Keep}, {409, answered, Keep},
		{401, answered, Leave}, {402, answered, Leave}, {429, answered, Leave},
		{400, asked, Leave}, {409, changed, Leave},
		{500, answered, Leave}, {502, asked, Leave}, {503, changed, Leave}, {504, asked, Leave},
	} {
		if got := End(tt.status, tt.did); got != tt.want {
			t.Errorf("%d after %+v: %d, want %d", tt.status, tt.did, got, tt.want)
		}
	}
}

func TestSameRequest(t *testing.T) {
	one := Request{"POST", "/v1/tenants/aaaaaaaa-0000-4000-8000-00000000000A/domains", "a=1", []byte(`{"domain":"a.example"}`)}
	id := one
	id.Path = "/v1/tenants/AAAAAAAA-0000-4000-8000-00000000000a/domains"
	if !bytes.Equal(one.Text(), id.Text()) {
		t.Error("the case of an id makes another request")
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
			t.Errorf("%s does not tell requests apart", name)
		}
	}
}

func TestPlacesAreToldApart(t *testing.T) {
	ann, bob := Place{Account: "ann", Key: [32]byte{1}}, Place{Account: "bob", Key: [32]byte{1}}
	other := Place{Account: "ann", Key: [32]byte{2}}
	if ann.String() == bob.String() || ann.String() == other.String() {
		t.Error("two rows have one place")
	}
}
