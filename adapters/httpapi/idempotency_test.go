// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/outcome"
)

const verifyOfA = domainsOfA + "/example.com/verify"

// once is a call with an Idempotency-Key of its own.
func once(w *world, key, method, path, body string) call {
	return call{method: method, path: path, body: body, key: w.a.key, headers: map[string]string{"Idempotency-Key": key}}
}

func addOnce(w *world, key string) call {
	return once(w, key, "POST", domainsOfA, `{"domain":"example.com"}`)
}

func (w *world) place(key string) idempotency.Place {
	return idempotency.Place{Account: w.a.account.ID, Key: sha256.Sum256([]byte(key))}
}

// replays checks that a second answer is the first one given again.
func replays(t *testing.T, first, second reply) {
	t.Helper()
	if second.status != first.status || second.raw != first.raw || second.header.Get("Content-Type") != first.header.Get("Content-Type") {
		t.Errorf("%d %s\nis answered again as %d %s", first.status, first.raw, second.status, second.raw)
	}
	if second.header.Get("Idempotency-Replayed") != "true" || first.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("replayed: %q, then %q", first.header.Get("Idempotency-Replayed"), second.header.Get("Idempotency-Replayed"))
	}
	if second.header.Get("X-Request-ID") == first.header.Get("X-Request-ID") {
		t.Error("the replay has the request id of the first request")
	}
}

func TestAWriteIsAnsweredAgain(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	w.options.Idempotency.Now = func() time.Time { return now }
	a := serve(t, w.handler(t))
	first := a.expect(addOnce(w, "k"), 200, "")
	replays(t, first, a.expect(addOnce(w, "k"), 200, ""))

	elsewhere := addOnce(w, "k").request(t, a.server.URL)
	elsewhere.Host = "other.example"
	replays(t, first, a.send(elsewhere))
	restarted := serve(t, w.handler(t))
	now = now.Add(23 * time.Hour)
	replays(t, first, restarted.expect(addOnce(w, "k"), 200, ""))
	if n := w.platform.Calls("AddDomain"); n != 1 {
		t.Fatalf("%d calls of the platform", n)
	}
	now = now.Add(2 * time.Hour)
	if anew := a.expect(addOnce(w, "k"), 200, ""); anew.body["status"] != "exists" || anew.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("after 25 hours: %s", anew.raw)
	}
}

func TestADeletionIsAnsweredAgain(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	ask := once(w, "k", "DELETE", "/v1/tenants/"+string(w.a.tenant), "")
	first := a.expect(ask, 200, "")
	replays(t, first, a.expect(ask, 200, ""))
	ask.headers["Idempotency-Key"] = "other"
	a.expect(ask, 404, "tenant_not_found")
}

func TestAKeyStandsForOneRequest(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	first := a.expect(addOnce(w, "k"), 200, "")
	for name, other := range map[string]call{
		"method":      once(w, "k", "DELETE", "/v1/tenants/"+string(w.a.tenant), `{"domain":"example.com"}`),
		"path":        once(w, "k", "POST", verifyOfA, ""),
		"query":       once(w, "k", "POST", domainsOfA+"?x=1", `{"domain":"example.com"}`),
		"body":        once(w, "k", "POST", domainsOfA, `{"domain":"example.org"}`),
		"white space": once(w, "k", "POST", domainsOfA, `{"domain": "example.com"}`),
		"no JSON":     once(w, "k", "POST", domainsOfA, `{`),
		"not owned":   once(w, "k", "POST", strings.Replace(domainsOfA, string(tenantOfA), string(tenantOfB), 1), `{"domain":"example.com"}`),
	} {
		t.Run(name, func(t *testing.T) {
			(&api{t: t, server: a.server, check: a.check}).expect(other, 409, "idempotency_key_conflict")
		})
	}
	upper := once(w, "k", "POST", strings.Replace(domainsOfA, string(tenantOfA), strings.ToUpper(string(tenantOfA)), 1), `{"domain":"example.com"}`)
	replays(t, first, a.expect(upper, 200, ""))
	a.expect(once(w, `"k"`, "POST", domainsOfA, `{"domain":"example.org"}`), 200, "") // quotes make another key
	theirs := addOnce(w, "k")
	theirs.key, theirs.path = w.b.key, strings.Replace(domainsOfA, string(tenantOfA), string(tenantOfB), 1)
	if got := a.do(theirs); got.header.Get("Idempotency-Replayed") != "" || got.code() == "idempotency_key_conflict" {
		t.Errorf("another account's key is not its own: %d %s", got.status, got.raw)
	}
}

// What was refused before anything was done leaves the key free.
func TestARefusalReleasesTheKey(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	provision := "/v1/tenants/" + string(w.a.tenant) + "/mailboxes"
	for _, refused := range []struct {
		call   call
		status int
		code   string
	}{
		{once(w, "k", "POST", domainsOfA, `{`), 400, "invalid_request"},
		{once(w, "k", "POST", domainsOfA, `{"domain":"com"}`), 400, "invalid_domain"},
		{once(w, "k", "POST", strings.Replace(domainsOfA, string(tenantOfA), string(tenantOfB), 1), `{"domain":"example.com"}`), 404, "tenant_not_found"},
		{once(w, "k", "POST", provision, bodies["POST /v1/tenants/{tenant_id}/mailboxes"]), 404, "domain_not_found"},
	} {
		a.expect(refused.call, refused.status, refused.code)
		if _, found, err := w.store.Remembered(t.Context(), w.place("k")); err != nil || found {
			t.Errorf("%s is remembered: %v", refused.code, err)
		}
	}
	a.expect(addOnce(w, "k"), 200, "")
}

// A refusal that the platform's answer or the live DNS led to is an answer.
func TestAnAnsweredRefusalIsKept(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	a.expect(addOnce(w, "add"), 200, "")
	ask := once(w, "k", "POST", verifyOfA, "")
	first := a.expect(ask, 400, "verification_failed")
	w.publish(t, w.a, "example.com")
	replays(t, first, a.expect(ask, 400, "verification_failed"))
	a.expect(once(w, "k2", "POST", verifyOfA, ""), 200, "")
}

// Trouble is never remembered: the same request goes on, another one may not
// have the key.
func TestTroubleIsNotKept(t *testing.T) {
	for name, trouble := range map[string]fake.Fault{
		"no answer": {Kind: outcome.Unknown},
		"down":      {Kind: outcome.Down},
		"broken":    {Kind: outcome.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := serve(t, w.handler(t))
			lift := w.platform.Fail(trouble)
			if got := a.do(addOnce(w, "k")); got.status < 500 {
				t.Fatalf("got %d %s", got.status, got.raw)
			}
			lift()
			a.expect(once(w, "k", "POST", domainsOfA, `{"domain":"example.org"}`), 409, "idempotency_key_conflict")
			first := a.expect(addOnce(w, "k"), 200, "")
			replays(t, first, a.expect(addOnce(w, "k"), 200, ""))
			if n := w.platform.Effects("AddDomain"); n != 1 {
				t.Errorf("added %d times", n)
			}
		})
	}
}

func TestAPanicIsNotKept(t *testing.T) {
	w := newWorld(t)
	good := w.options.Domains.Now
	broken := *w.options.Domains
	broken.Now = func() time.Time { panic("at work") }
	w.options.Domains = &broken
	a := serve(t, w.handler(t))
	a.expect(addOnce(w, "k"), 500, "internal_error")
	broken.Now = good
	a.expect(addOnce(w, "k"), 200, "")
}

// While the first request runs, the same one waits outside, and after it gets
// the same answer although its caller went away.
func TestTheFirstRequestRunsOnWithoutItsCaller(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	gate := w.platform.Hold("AddDomain")
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		answer, err := noRedirects.Do(addOnce(w, "k").request(t, a.server.URL).WithContext(ctx))
		if err == nil {
			_ = answer.Body.Close()
		}
		gone <- err
	}()
	receive(t, gate.Arrived(), "the first request did not reach the platform")
	if got := a.expect(addOnce(w, "k"), 409, "idempotency_request_in_progress"); got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
	}
	a.expect(once(w, "k", "POST", domainsOfA, `{"domain":"example.org"}`), 409, "idempotency_key_conflict")
	hangUp()
	if err := receive(t, gone, "the cancelled request did not end"); err == nil {
		t.Fatal("the cancelled request was answered")
	}
	gate.Release()
	for deadline := time.Now().Add(hang); ; time.Sleep(time.Millisecond) {
		r, _, err := w.store.Remembered(t.Context(), w.place("k"))
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the answer of the first request was not stored: %v", err)
		}
		if r.Answer != nil {
			break
		}
	}
	got := a.expect(addOnce(w, "k"), 200, "")
	if got.header.Get("Idempotency-Replayed") != "true" || got.body["status"] != "added" {
		t.Errorf("got %s", got.raw)
	}
}

func TestOfManyRequestsOneRuns(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	const crowd = 100
	answers, gate := make([]reply, crowd), make(chan struct{})
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			<-gate
			ask := addOnce(w, "k")
			if i%2 == 1 { // every other one is another request
				ask.body = `{"domain":"example.com" }`
			}
			answers[i] = a.do(ask)
		})
	}
	close(gate)
	all.Wait()
	if n := w.platform.Calls("AddDomain"); n != 1 {
		t.Errorf("%d calls of the platform", n)
	}
	raw := ""
	for _, got := range answers {
		switch {
		case got.status == 200 && (raw == "" || raw == got.raw):
			raw = got.raw
		case got.status == http.StatusConflict && (got.code() == "idempotency_request_in_progress" || got.code() == "idempotency_key_conflict"):
		default:
			t.Fatalf("got %d %s, beside %s", got.status, got.raw, raw)
		}
	}
	if raw == "" {
		t.Error("nobody got an answer")
	}
}

// A remembered answer that was changed, or moved from another row, is an alarm
// and no reason to run again.
func TestATamperedAnswerIsAnAlarm(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	a.expect(addOnce(w, "k"), 200, "")
	a.expect(once(w, "other", "POST", domainsOfA, `{"domain":"example.org"}`), 200, "")
	mine, _, err := w.store.Remembered(t.Context(), w.place("k"))
	theirs, _, err2 := w.store.Remembered(t.Context(), w.place("other"))
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	changed := append([]byte{}, mine.Answer...)
	changed[len(changed)-1] ^= 1
	calls := w.platform.Calls("AddDomain")
	for name, answer := range map[string][]byte{"changed": changed, "moved": theirs.Answer, "emptied": {}} {
		if _, err := w.store.Finish(t.Context(), w.place("k"), mine.Attempt, answer, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if got := a.expect(addOnce(w, "k"), 500, "internal_error"); strings.Contains(got.raw, "open") {
			t.Errorf("%s: %s", name, got.raw)
		}
	}
	if n := w.platform.Calls("AddDomain"); n != calls {
		t.Errorf("the operation ran again")
	}
	if got, err := w.options.Idempotency.Sealer.Open(mine.Answer, w.place("k").String()); err != nil || !strings.Contains(got.Reveal(), "content_type") {
		t.Errorf("the answer itself is not sealed in its row: %v", err)
	}
	if strings.Contains(string(mine.Answer), "example.com") {
		t.Error("the answer is readable")
	}
}

// A lapsed or revoked caller reads no old answers.
func TestNoReplayWithoutAPlan(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	a.expect(addOnce(w, "k"), 200, "")
	w.lapse(t, w.a)
	a.expect(addOnce(w, "k"), 402, "no_api_plan")
	stranger := addOnce(w, "k")
	stranger.key = "tny_live_" + strings.Repeat("0", 48)
	a.expect(stranger, 401, "invalid_api_key")
}
