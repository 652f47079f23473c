// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// mortal is a sandbox that dies and is started again on its data folder.
type mortal struct {
	client
	binary  built
	data    string
	process *process
	// armed are the failpoints that are still to be hit, hit those that were.
	armed, hit []string
	given      []string // variables beside those of the failpoints
	flags      []string
}

func newMortal(t *testing.T, b built, armed []string) *mortal {
	t.Helper()
	m := &mortal{client: client{t: t}, binary: b, data: t.TempDir(), armed: armed}
	m.start()
	return m
}

func (m *mortal) start() {
	m.t.Helper()
	env := append([]string{"TENANTRY_FAILPOINTS=" + strings.Join(m.armed, ",")}, m.given...)
	m.process, m.ready = startDev(m.t, m.binary, m.data, env, m.flags...)
}

// request is one that is sent until it is answered well.
type request struct {
	method, path string
	body         any
	control      bool
	// gone is the status that says that a deed without a second time is done.
	gone int
	// busy is a refusal that is over soon.
	busy string
	// once is its Idempotency-Key, a new one each time when empty.
	once string
}

func (m *mortal) send(r request) (reply, error) {
	if r.control {
		return m.try(r.method, m.ready.ControlURL+r.path, "", keyed(r.body, m.ready.APIKey))
	}
	return m.tryAs(cmp.Or(r.once, rand.Text()), r.method, m.ready.APIURL+r.path, m.ready.APIKey, r.body)
}

// keyed fills in the API key, which is another one after some starts.
func keyed(body any, key string) any {
	if o, ok := body.(object); ok && o["api_key"] != nil {
		return object{"api_key": key}
	}
	return body
}

// insist sends a request until the answer is a success, over deaths of the
// service and over answers that say to come back.
func (m *mortal) insist(r request) reply {
	m.t.Helper()
	r.once = cmp.Or(r.once, rand.Text())
	for deadline := time.Now().Add(hang); time.Now().Before(deadline); {
		got, err := m.send(r)
		switch {
		case err != nil:
			m.revive(r, err)
		case got.status < 300, r.gone != 0 && got.status == r.gone:
			return got
		case got.status == http.StatusServiceUnavailable || got.status == http.StatusGatewayTimeout, r.busy != "" && got.code() == r.busy:
			<-time.After(100 * time.Millisecond)
		default:
			m.t.Fatalf("%s %s: %d %s (after %v)", r.method, r.path, got.status, got.raw, m.hit)
		}
	}
	m.t.Fatalf("%s %s did not succeed in %s", r.method, r.path, hang)
	return reply{}
}

var hitLine = regexp.MustCompile(`(?m)^failpoint (\S+)$`)

// revive starts the service again after a failpoint killed it.
func (m *mortal) revive(r request, lost error) {
	m.t.Helper()
	select {
	case <-m.process.done:
	case <-time.After(hang):
		m.t.Fatalf("%s %s got no answer from a service that lives: %v", r.method, r.path, lost)
	}
	found := hitLine.FindStringSubmatch(m.process.logs.String())
	if found == nil {
		m.t.Fatalf("%s %s: the service ended by itself: %v", r.method, r.path, lost)
	}
	m.hit = append(m.hit, found[1])
	m.armed = slices.DeleteFunc(slices.Clone(m.armed), func(name string) bool { return name == found[1] })
	m.start()
}

// killed starts the service again after SIGKILL to it.
func (m *mortal) killed() {
	m.t.Helper()
	m.process.kill()
	m.start()
}

// journal counts what the simulator did, by operation, and what it was asked
// and died over: its work may or may not have been done.
func (m *mortal) journal() (done, unsure map[string]int) {
	m.t.Helper()
	done, unsure = map[string]int{}, map[string]int{}
	for _, call := range m.calls("microsoft365") {
		switch status, _ := call["status"].(float64); {
		case status == 0:
			unsure[call.text("operation")]++
		case status < 400:
			done[call.text("operation")]++
		}
	}
	return done, unsure
}

// platform is what the simulator itself holds of a tenant.
func (m *mortal) platform(tenant string) (domains, mailboxes []object) {
	m.t.Helper()
	held := m.control("GET", "/tenants/"+tenant, nil)
	return held.objects("domains"), held.objects("mailboxes")
}

// expect checks one number.
func (m *mortal) expect(what string, got, want any) {
	m.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		m.t.Errorf("%s: %v, want %v (after %v)", what, got, want, m.hit)
	}
}
