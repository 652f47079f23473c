// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"bytes"
	"testing"
	"time"
)

var answeredAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestDecideReplaysOnlyTheSameRequest(t *testing.T) {
	keptUntil := answeredAt.Add(Retention)
	for _, tc := range []struct {
		name        string
		record      Record
		sameRequest bool
		now         time.Time
		want        Verdict
	}{
		{"answered, the same request", Record{Answer: []byte{}, ExpiresAt: keptUntil}, true, answeredAt, Replay},
		{"answered, a different request", Record{Answer: []byte("x"), ExpiresAt: keptUntil}, false, answeredAt, Conflict},
		{"answered, after 23 hours", Record{Answer: []byte("x"), ExpiresAt: keptUntil}, true, answeredAt.Add(23 * time.Hour), Replay},
		{"answered, at the last moment of the retention", Record{Answer: []byte("x"), ExpiresAt: keptUntil}, true, keptUntil.Add(-1), Replay},
		{"answered, at the end of the retention", Record{Answer: []byte("x"), ExpiresAt: keptUntil}, true, keptUntil, Run},
		{"answered, a different request at the end of the retention", Record{Answer: []byte("x"), ExpiresAt: keptUntil}, false, keptUntil, Run},
		{"running, the same request", Record{Leased: true, ExpiresAt: keptUntil}, true, answeredAt, Busy},
		{"running, a different request is a conflict", Record{Leased: true, ExpiresAt: keptUntil}, false, answeredAt, Conflict},
		{"running past its retention", Record{Leased: true, ExpiresAt: keptUntil}, true, keptUntil, Busy},
		{"lease lost, the same request", Record{ExpiresAt: keptUntil}, true, answeredAt, Run},
		{"lease lost, a different request", Record{ExpiresAt: keptUntil}, false, answeredAt, Conflict},
	} {
		if got := Decide(tc.record, tc.sameRequest, tc.now); got != tc.want {
			t.Errorf("%s: got the verdict %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestDecideEndKeepsTheKeyWhileEffectsAreUncertain(t *testing.T) {
	noEffects, withChange := Effects{}, Effects{Changed: true}
	withCall, withAnswer := Effects{ProviderCalled: true}, Effects{ProviderCalled: true, Answered: true}
	for _, tc := range []struct {
		status  int
		effects Effects
		want    Result
	}{
		{200, noEffects, KeepAnswer}, {202, withAnswer, KeepAnswer}, {200, withChange, KeepAnswer},
		{400, noEffects, Release}, {404, noEffects, Release}, {409, noEffects, Release}, {402, noEffects, Release}, {503, noEffects, Release},
		{400, withAnswer, KeepAnswer}, {403, withAnswer, KeepAnswer}, {409, withAnswer, KeepAnswer},
		{401, withAnswer, KeepKey}, {402, withAnswer, KeepKey}, {404, withAnswer, KeepKey}, {429, withAnswer, KeepKey},
		{400, withCall, KeepKey}, {409, withChange, KeepKey},
		{500, withAnswer, KeepKey}, {502, withCall, KeepKey}, {503, withChange, KeepKey}, {504, withCall, KeepKey},
	} {
		if got := DecideEnd(tc.status, false, tc.effects); got != tc.want {
			t.Errorf("%d after %+v: got %d, want %d", tc.status, tc.effects, got, tc.want)
		}
	}
	withCompletion := Effects{Changed: true, Completed: true}
	for status, want := range map[int]Result{200: AnswerKept, 202: AnswerKept, 409: KeepKey, 503: KeepKey} {
		if got := DecideEnd(status, false, withCompletion); got != want {
			t.Errorf("%d after %+v: got %d, want %d", status, withCompletion, got, want)
		}
	}
	for _, tc := range []struct {
		effects Effects
		want    Result
	}{{noEffects, Release}, {withChange, KeepKey}, {withCall, KeepKey}, {withAnswer, KeepKey}} {
		if got := DecideEnd(409, true, tc.effects); got != tc.want {
			t.Errorf("409 from the store after %+v: got %d, want %d", tc.effects, got, tc.want)
		}
	}
}

func TestRequestTextDistinguishesRequests(t *testing.T) {
	original := Request{"POST", "/v1/tenants/aaaaaaaa-0000-4000-8000-00000000000A/domains", "a=1", []byte(`{"domain":"a.example"}`)}
	withOtherCase := original
	withOtherCase.Path = "/v1/tenants/AAAAAAAA-0000-4000-8000-00000000000a/domains"
	if !bytes.Equal(original.Text(), withOtherCase.Text()) {
		t.Error("requests whose ids differ only in letter case have different texts")
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
		t.Error("the keys of two accounts, or two keys of one account, have the same text")
	}
}
