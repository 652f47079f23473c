// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// journey takes a tenant from the connection to the removal, while the mail platform fails or shows
// old data.
type journey struct {
	accountTenant
	zones   []string
	prepare func() // runs before each step
}

// newJourney creates a simulated tenant of a new account, and two zones.
func newJourney(c caller, setup, behaviour object) *journey {
	c.t.Helper()
	tenant := c.newAccount(nil).newTenant(setup)
	tenant.setBehaviour(behaviour)
	return &journey{accountTenant: tenant, zones: []string{tenant.newZone(), tenant.newZone()}, prepare: func() {}}
}

// sendUntilSuccess repeats a request until it succeeds. It keeps the Idempotency-Key unless the API
// refused the request, because a refusal is stored with its key. retryCodes are the codes of
// refusals after which a later try can succeed.
func (j *journey) sendUntilSuccess(method, path string, body any, retryCodes ...string) reply {
	j.t.Helper()
	idempotencyKey, lastReply := rand.Text(), reply{}
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline) && j.t.Context().Err() == nil; {
		got, err := j.tryWithKey(idempotencyKey, method, j.ready.APIURL+path, j.key, body)
		if err == nil {
			err = checkDocumented(j.t, method, path, got)
		}
		if err != nil {
			j.t.Errorf("%s %s failed, or the answer differs from the OpenAPI document: %v\n%s", method, path, err, got.raw)
			return got
		}
		switch lastReply = got; {
		case got.status == http.StatusOK:
			return got
		case got.code() == "access_denied": // after 401 answers the consent counts as revoked until a sync
			idempotencyKey = rand.Text()
			if sync := j.path("/sync"); path != sync {
				j.sendUntilSuccess("POST", sync, nil)
			}
		case got.code() == "dkim_not_ready": // the platform may have created the DKIM records after the last publish
			idempotencyKey = rand.Text()
			j.publish()
		case got.status == http.StatusBadGateway, got.status == http.StatusServiceUnavailable, got.status == http.StatusGatewayTimeout:
		case slices.Contains(retryCodes, got.code()): // a sync that read old data hides the object until the next sync
			idempotencyKey = rand.Text()
			j.sendUntilSuccess("POST", j.path("/sync"), nil)
		default:
			j.t.Errorf("%s %s is answered %d %s, want a success or a temporary error", method, path, got.status, got.raw)
			return got
		}
		<-time.After(200 * time.Millisecond)
	}
	j.t.Errorf("%s %s did not succeed in time, the last answer is %d %s", method, path, lastReply.status, lastReply.raw)
	return lastReply
}

// step runs requests in parallel, after prepare. It ends the test if one of them does not succeed.
func (j *journey) step(requests ...func()) {
	j.t.Helper()
	j.prepare()
	var wg sync.WaitGroup
	for _, send := range requests {
		wg.Go(send)
	}
	wg.Wait()
	if j.t.Failed() {
		j.t.FailNow()
	}
}

// syncFully syncs until a sync is complete. The status of an incomplete sync is "partial".
func (j *journey) syncFully() {
	j.t.Helper()
	j.eventually("a complete sync", func() bool {
		return j.t.Failed() || j.sendUntilSuccess("POST", j.path("/sync"), nil).text("status") == "completed"
	})
}

// onboard connects the tenant and provisions mailboxes in two verified domains. It enables DKIM for
// the first domain.
func (j *journey) onboard() {
	j.t.Helper()
	j.step(func() {
		j.eventually("the tenant is connected", func() bool {
			got, err := j.tryDo("POST", j.ready.ControlURL+"/tenants/"+j.guid+"/consent", "", object{"api_key": j.key})
			return err == nil && got.status == http.StatusOK
		})
	})
	j.step(j.syncFully)
	domainRequest := func(zone, rest string, retryCodes ...string) func() {
		return func() { j.sendUntilSuccess("POST", j.domainPath(zone, rest), nil, retryCodes...) }
	}
	var addRequests, verifyRequests []func()
	for _, zone := range j.zones {
		addRequests = append(addRequests, func() {
			checkValues(j.t, j.sendUntilSuccess("POST", j.path("/domains"), object{"domain": zone}).object, object{"status": "added"})
		})
		verifyRequests = append(verifyRequests, domainRequest(zone, "/verify", "domain_not_found"))
	}
	j.step(addRequests...)
	j.publish()
	j.step(append(verifyRequests, j.syncFully)...)
	j.publish()
	j.step(domainRequest(j.zones[0], "/enable-dkim"), j.syncFully)
	j.step(func() { j.provision(j.zones[0], "ada", "max", "lise") }, func() { j.provision(j.zones[1], "emmy") }, j.syncFully)
}

// publish writes the records of all domains. A sync that read old data can have missed a domain,
// which is then hidden until the next sync.
func (j *journey) publish() {
	j.t.Helper()
	for _, zone := range j.zones {
		j.eventually("the API returns the records of "+zone, func() bool {
			if j.call("GET", j.domainPath(zone, "/dns"), nil).status == http.StatusOK {
				return true
			}
			j.syncFully()
			return j.t.Failed()
		})
		j.publishRecords(zone)
	}
}

// provision creates mailboxes until each exists.
func (j *journey) provision(zone string, localParts ...string) {
	j.t.Helper()
	created, answers := 0.0, ""
	j.eventually("no mailbox of "+zone+" fails", func() bool {
		got := j.sendUntilSuccess("POST", j.path("/mailboxes"), mailboxesBody(zone, localParts...), "domain_not_found")
		n, _ := got.valueAt("created_count").(float64)
		created += n
		answers += "\n" + string(got.raw)
		return j.t.Failed() || got.valueAt("failed_count") == 0.0
	})
	if created != float64(len(localParts)) {
		j.t.Errorf("%s: %v mailboxes were created, want %d. The answers:%s", zone, created, len(localParts), answers)
	}
}

// mailboxIDs returns the ids of the stored mailboxes by address.
func (j *journey) mailboxIDs() map[string]string {
	j.t.Helper()
	ids := map[string]string{}
	for _, m := range j.get(j.path("/mailboxes")).objects("mailboxes") {
		ids[m.text("primary_smtp")] = m.text("id")
	}
	return ids
}

// checkLimits sets limits, lets a mailbox exceed its limit, and checks that the mailbox is blocked.
// It raises the limit and checks that the mailbox is unblocked.
func (j *journey) checkLimits(ids map[string]string) {
	j.t.Helper()
	limited := "max@" + j.zones[0]
	setLimit := func(body object) func() {
		return func() { j.sendUntilSuccess("POST", j.path("/mailbox-limits"), body) }
	}
	j.step(setLimit(object{"daily_send_limit": 5}), setLimit(object{"daily_send_limit": 20, "domain_scope": j.zones[1]}))
	j.control("POST", "/messages", object{"mailbox": limited, "count": 9})
	j.enforceUntil("blocked", true, ids[limited])
	j.step(setLimit(object{"daily_send_limit": 25}))
	j.enforceUntil("unblocked", false, ids[limited])
}

// enforceUntil enforces the limits until the blocked state of the mailbox is as wanted.
func (j *journey) enforceUntil(subject string, blocked bool, id string) {
	j.t.Helper()
	j.step(func() {
		j.eventually("the mailbox is "+subject, func() bool {
			if _, err := j.tryDo("POST", j.ready.ControlURL+"/enforcement/run", "", nil); err != nil {
				j.t.Error(err)
			}
			if j.t.Failed() || j.call("GET", j.path("/mailboxes/"+id+"/usage"), nil).valueAt("is_blocked") == blocked {
				return true
			}
			j.syncFully()
			return false
		})
	})
}

// rename changes the name and the limit of a mailbox.
func (j *journey) rename(id string) {
	j.t.Helper()
	j.step(func() {
		j.sendUntilSuccess("PATCH", j.path("/mailboxes/"+id), object{"display_name": "Ada Lovelace", "daily_send_limit": 7}, "mailbox_not_found")
	}, j.syncFully)
}

// remove removes a mailbox, a domain with its mailboxes, and the tenant.
func (j *journey) remove(ids map[string]string) {
	j.t.Helper()
	var removals []func()
	for address, id := range ids {
		if address == "ada@"+j.zones[0] || strings.HasSuffix(address, "@"+j.zones[1]) {
			removals = append(removals, func() {
				j.sendUntilSuccess("DELETE", j.path("/mailboxes/"+id+"?confirm="+address), nil, "mailbox_not_found")
			})
		}
	}
	j.step(removals...)
	j.step(func() {
		j.sendUntilSuccess("DELETE", j.domainPath(j.zones[1], "?from_platform=true"), nil, "domain_not_found", "domain_in_use")
	})
	j.checkPlatformMailboxes(j.zones[0], "max", "lise")
	remaining := j.control("GET", "/tenants/"+j.guid, nil).objects("domains")
	if len(remaining) != 1 || remaining[0].text("name") != j.zones[0] {
		j.t.Errorf("the platform has the domains %v, want only %s", remaining, j.zones[0])
	}
	var deleted reply
	j.step(func() { deleted = j.sendUntilSuccess("DELETE", j.path(""), nil) })
	for _, rule := range j.control("GET", "/tenants/"+j.guid, nil).objects("rules") {
		// The tenant is deleted even if its rules cannot be removed at the platform. The response
		// then names the rules.
		if !strings.Contains(deleted.text("message"), rule.text("name")) {
			j.t.Errorf("the platform still has the rule %v, which the answer does not name: %s", rule, deleted.raw)
		}
	}
}

// countExecuted counts the calls that the platform has executed, by operation. Calls that change a
// user are counted for each user.
func (j *journey) countExecuted() map[string]int {
	j.t.Helper()
	counts := map[string]int{}
	for _, call := range j.journal(mailPlatform) {
		if status, _ := call["status"].(float64); status >= 200 && status < 300 {
			operation := call.text("operation")
			if operation == "user.update" {
				operation += " " + call.text("path")
			}
			counts[operation]++
		}
	}
	return counts
}
