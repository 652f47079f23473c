// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"bytes"
	"testing"
	"time"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestDecideReplaysOnlyTheSameRequest(t *testing.T) {
	keptUntil := at.Add(Retention)
	for _, tt := range []struct {
		name        string
		record      Record
		sameRequest bool
		now         time.Time
		want        Verdict
	}{
		{"answered, the same request", Record{Answer: []byte{}, ExpiresAt: keptUntil}, true, at, Replay},
		{"answered, a different request", Record{Answer: []byte("x"), ExpiresAt: keptUntil}, false, at, Conflict},
		{"answered, after 23 hours", Record{Answer: []byte("x"), ExpiresAt: keptUntil}, true, at.Add(23 * time.Hour), Replay},
		{"answered, at the last moment of the retention", Record{Answer: []byte("x"), ExpiresAt: keptUntil}, true, keptUntil.Add(-1), Replay},
		{"answered, at the end of the retention", Record{Answer: []byte("x"), ExpiresAt: keptUntil}, true, keptUntil, Run},
		{"answered, a different request at the end of the retention", Record{Answer: []byte("x"), ExpiresAt: keptUntil}, false, keptUntil, Run},
		{"running, the same request", Record{Leased: true, ExpiresAt: keptUntil}, true, at, Busy},
		{"running, a different request is a conflict", Record{Leased: true, ExpiresAt: keptUntil}, false, at, Conflict},
		{"running past its retention", Record{Leased: true, ExpiresAt: keptUntil}, true, keptUntil, Busy},
		{"lease lost, the same request", Record{ExpiresAt: keptUntil}, true, at, Run},
		{"lease lost, a different request", Record{ExpiresAt: keptUntil}, false, at, Conflict},
	} {
		if got := Decide(tt.record, tt.sameRequest, tt.now); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestDecideEndKeepsTheKeyWhileEffectsAreUncertain(t *testing.T) {
	nothing, changed := Effects{}, Effects{Changed: true}
	called, answered := Effects{ProviderCalled: true}, Effects{ProviderCalled: true, Answered: true}
	for _, tt := range []struct {
		status  int
		effects Effects
		want    Result
	}{
		{200, nothing, KeepAnswer}, {202, answered, KeepAnswer}, {200, changed, KeepAnswer},
		{400, nothing, Release}, {404, nothing, Release}, {409, nothing, Release}, {402, nothing, Release}, {503, nothing, Release},
		{400, answered, KeepAnswer}, {403, answered, KeepAnswer}, {409, answered, KeepAnswer},
		{401, answered, KeepKey}, {402, answered, KeepKey}, {404, answered, KeepKey}, {429, answered, KeepKey},
		{400, called, KeepKey}, {409, changed, KeepKey},
		{500, answered, KeepKey}, {502, called, KeepKey}, {503, changed, KeepKey}, {504, called, KeepKey},
	} {
		if got := DecideEnd(tt.status, false, tt.effects); got != tt.want {
			t.Errorf("%d after %+v: %d, want %d", tt.status, tt.effects, got, tt.want)
		}
	}
	completed := Effects{Changed: true, Completed: true}
	for status, want := range map[int]Result{200: AnswerKept, 202: AnswerKept, 409: KeepKey, 503: KeepKey} {
		if got := DecideEnd(status, false, completed); got != want {
			t.Errorf("%d after %+v: %d, want %d", status, completed, got, want)
		}
	}
	for _, tt := range []struct {
		effects Effects
		want    Result
	}{{nothing, Release}, {changed, KeepKey}, {called, KeepKey}, {answered, KeepKey}} {
		if got := DecideEnd(409, true, tt.effects); got != tt.want {
			t.Errorf("409 from the store after %+v: %d, want %d", tt.effects, got, tt.want)
		}
	}
}

func TestRequestTextDistinguishesRequests(t *testing.T) {
	original := Request{"POST", "/v1/tenants/aaaaaaaa-0000-4000-8000-00000000000A/domains", "a=1", []byte(`{"domain":"a.example"}`)}
	withOtherCase := original
	withOtherCase.Path = "/v1/tenants/AAAAAAAA-0000-4000-8000-00000000000a/domains"
	if !bytes.Equal(original.Text(), withOtherCase.Text()) {
		t.Error("the case of an id makes a different request")
	}
	for name, change := range map[string]func(*Request){
		"method":                      func(r *Request) { r.Method = "PATCH" },
		"path":                        func(r *Request) { r.Path += "/x" },
		"case of the path":            func(r *Request) { r.Path = "/V1" + r.Path[3:] },
		"query":                       func(r *Request) { r.Query = "a=2" },
		"boundary of path and query":  func(r *Request) { r.Path, r.Query = r.Path+"a", "=1" },
		"white space":                 func(r *Request) { r.Body = []byte(`{"domain": "a.example"}`) },
		"body":                        func(r *Request) { r.Body = nil },
		"boundary of method and path": func(r *Request) { r.Method, r.Path = "POST/", r.Path[1:] },
	} {
		changed := original
		change(&changed)
		if bytes.Equal(original.Text(), changed.Text()) {
			t.Errorf("requests with a different %s have the same text", name)
		}
	}
}

func TestKeyIDsAreUnique(t *testing.T) {
	keyOfAnn, sameKeyOfBob := KeyID{Account: "ann", Key: [32]byte{1}}, KeyID{Account: "bob", Key: [32]byte{1}}
	otherKeyOfAnn := KeyID{Account: "ann", Key: [32]byte{2}}
	if keyOfAnn.String() == sameKeyOfBob.String() || keyOfAnn.String() == otherKeyOfAnn.String() {
		t.Error("two keys have the same text")
	}
}
