// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// identical is how many identical requests are sent at once.
func identical() int {
	if soak {
		return 100
	}
	return 30
}

// rounds is how often each write is raced.
func rounds() int {
	if soak {
		return 50
	}
	return 1
}

// raced are the servers that identical requests go to, and what tells how
// often the platform was written to.
type raced struct {
	*rig
	servers []client
	key     string
}

// everyone sends one write to all servers at once and returns the one answer
// that was given. Whoever came too early is told so.
func (w *raced) everyone(once, method, path string, body any, status int) reply {
	w.t.Helper()
	answers, errs, gate := make([]reply, identical()), make([]error, identical()), make(chan struct{})
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			<-gate
			c := w.servers[i%len(w.servers)]
			answers[i], errs[i] = c.patient(once, method, path, w.key, body)
		})
	}
	close(gate)
	all.Wait()
	var given reply
	first := 0
	for i, got := range answers {
		switch {
		case errs[i] != nil:
			w.t.Fatalf("%s %s: %v", method, path, errs[i])
		case got.status == http.StatusConflict && got.code() == "idempotency_request_in_progress":
		case got.status != status || given.raw != nil && !bytes.Equal(got.raw, given.raw):
			w.t.Fatalf("%s %s: %d %s\nbeside %s", method, path, got.status, got.raw, given.raw)
		default:
			given = got
			if got.header.Get("Idempotency-Replayed") == "" {
				first++
			}
		}
	}
	if first != 1 {
		w.t.Fatalf("%s %s was answered %d times anew", method, path, first)
	}
	return given
}

// wrote counts what an operation of the platform did with success.
func (w *raced) wrote(path, cmdlet string) (n int) {
	for _, s := range w.requests() {
		if s.method == http.MethodPost && strings.HasSuffix(s.path, path) && s.status < 300 && s.cmdlet() == cmdlet {
			n++
		}
	}
	return n
}

// race sends a write to everyone and checks that the platform was written to
// once. effect names the cmdlet, or the end of the path of a plain request.
func (w *raced) race(method, path string, body any, effect string) reply {
	w.t.Helper()
	at, cmdlet := "/InvokeCommand", effect
	if strings.HasPrefix(effect, "/") {
		at, cmdlet = effect, ""
	}
	before := w.wrote(at, cmdlet)
	got := w.everyone(rand.Text(), method, path, body, http.StatusOK)
	if n := w.wrote(at, cmdlet) - before; effect != "" && n != 1 {
		w.t.Errorf("%s %s: %s was done %d times", method, path, effect, n)
	}
	return got
}

// round takes each write of the API through a race.
func (w *raced) round() {
	w.t.Helper()
	c := w.servers[0]
	guid, admin := w.tenant(c)
	newAdministrator(w.t, admin).connects(c, w.key)
	path := "/v1/tenants/" + guid
	if got := w.race("POST", path+"/sync", nil, "Set-TransportConfig"); got.text("status") != "completed" {
		w.t.Fatalf("sync: %s", got.raw)
	}
	c.ready.APIKey = w.key
	zone := fmt.Sprintf("race-%d.test", serial.Add(1))
	if err := w.zones.Add(zone, "manual"); err != nil {
		w.t.Fatal(err)
	}
	w.race("POST", path+"/domains", object{"domain": zone}, "/v1.0/domains")
	h := holding{caller: caller{client: c, key: w.key}, guid: guid}
	h.publish(zone)
	w.race("POST", path+"/domains/"+zone+"/verify", nil, "/domains/"+zone+"/verify")
	h.publish(zone)
	w.race("POST", path+"/domains/"+zone+"/enable-dkim", nil, "Set-DkimSigningConfig")
	if made := w.race("POST", path+"/mailboxes", boxes(zone, "ada"), "New-Mailbox"); made.text("created_count") != "1" {
		w.t.Errorf("created: %s", made.raw)
	}
	box := h.get(path + "/mailboxes").objects("mailboxes")[0].text("id")
	w.race("PATCH", path+"/mailboxes/"+box, object{"display_name": "Ada L."}, "Set-Mailbox")
	w.race("DELETE", path, nil, "")
}

// TestIdenticalRequestsAtOnce sends many identical requests at once, for each write of
// the API, to two servers on PostgreSQL and to one on SQLite.
func TestIdenticalRequestsAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		w := newTwins(t, "complete", 60)
		r := &raced{rig: w.rig, servers: w.servers[:], key: w.key}
		for range rounds() {
			r.round()
		}
		if n := w.rows("SELECT count(*) FROM idempotency_keys WHERE answer IS NULL"); n != 0 {
			t.Errorf("%d keys have no answer", n)
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, binary(t, release))
		env := r.env(t.TempDir(), "")
		_, key := r.account(env, "owner@example.com", "complete", 60)
		_, c := r.serve(env)
		one := &raced{rig: r, servers: []client{c}, key: key}
		for range rounds() {
			one.round()
		}
	})
}
