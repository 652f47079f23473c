// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"net/http"
	"slices"
	"testing"
)

// effects are the writes of each step at the mail platform, in the order in
// which they happen: each has an answer that can be lost.
var effects = map[string][]string{
	"connect":     {"token"},
	"sync":        {"create-roleAssignments", "Set-TransportConfig"},
	"add domain":  {"domain.create"},
	"verify":      {"domain.verify", "domain.update", "New-DkimSigningConfig"},
	"enable-dkim": {"Set-DkimSigningConfig"},
	"provision":   {"New-Mailbox", "user.update", "Set-CASMailbox"},
	"rename":      {"Set-Mailbox"},
}

// disturbed is an errand each of whose steps meets something before it is
// insisted on.
func disturbed(t *testing.T, meet func(e *errand, r request, operations []string)) {
	t.Helper()
	e := setOut(newMortal(t, binary(t, release), nil))
	met := 0
	e.run(mainJob(), func(s step, r request) reply {
		meet(e, r, effects[s.name])
		met += len(effects[s.name])
		e.control("DELETE", "/faults", nil)
		return e.insist(r)
	})
	e.expect("effects met", met, 12)
	e.check()
	e.fill()
}

func (e *errand) fault(plan object) {
	e.t.Helper()
	plan["provider"] = "microsoft365"
	e.control("POST", "/faults", plan)
}

// pending is a request that waits for its answer.
type pending struct {
	answered chan struct{}
	got      reply
	err      error
}

func (e *errand) ask(r request) *pending {
	p := &pending{answered: make(chan struct{})}
	go func() {
		defer close(p.answered)
		p.got, p.err = e.send(r)
	}()
	return p
}

// until waits until the simulator has done an operation more often than
// before. It is false when the request was answered instead.
func (e *errand) until(p *pending, operation string, before int) bool {
	e.t.Helper()
	seen := false
	e.eventually(operation+" done", func() bool {
		select {
		case <-p.answered:
			return true
		default:
		}
		done, _ := e.journal()
		seen = done[operation] > before
		return seen
	})
	return seen
}

// hold has the simulator keep its answer after the next such operation.
func (e *errand) hold(operation string) (before int) {
	e.t.Helper()
	done, _ := e.journal()
	e.fault(object{"operation": operation, "kind": "delay_after", "delay_ms": 60_000, "times": 1})
	return done[operation]
}

// TestKilledWhileTheAnswerIsHeld kills the service after an effect and before the
// answer to it arrives: after each effect in a soak, else after a sample.
func TestKilledWhileTheAnswerIsHeld(t *testing.T) {
	t.Parallel()
	chosen := sample(t, slices.Concat(slices.Collect(maps.Values(effects))...), 4)
	disturbed(t, func(e *errand, r request, operations []string) {
		for _, operation := range operations {
			if !slices.Contains(chosen, operation) {
				continue
			}
			before := e.hold(operation)
			p := e.ask(r)
			if !e.until(p, operation, before) {
				e.t.Fatalf("answered without %s: %d %s", operation, p.got.status, p.got.raw)
			}
			e.killed()
			if <-p.answered; p.err == nil {
				e.t.Errorf("%s: a killed service answered %d %s", operation, p.got.status, p.got.raw)
			}
		}
	})
}

// TestPluginKilledWhileTheAnswerIsHeld: the plugin's process dies after each
// effect. The service goes on after it looked, or says that it does not know.
func TestPluginKilledWhileTheAnswerIsHeld(t *testing.T) {
	t.Parallel()
	disturbed(t, func(e *errand, r request, operations []string) {
		before := map[string]int{}
		for _, operation := range operations {
			before[operation] = e.hold(operation)
		}
		p := e.ask(r)
		for _, operation := range operations {
			for !e.until(p, operation, before[operation]) {
				if e.resolved(operation, p) {
					e.t.Fatalf("answered without %s: %s", operation, p.got.raw)
				}
				p = e.ask(r)
			}
			e.control("POST", "/plugins/microsoft365/kill", nil)
		}
		<-p.answered
		e.resolved(operations[len(operations)-1], p)
	})
}

// TestAnswersLost: the mail platform does its work, and the answers are cut
// off: the one of each operation, and that of each mailbox.
func TestAnswersLost(t *testing.T) {
	t.Parallel()
	disturbed(t, func(e *errand, r request, operations []string) {
		for _, operation := range operations {
			e.fault(object{"operation": operation, "kind": "drop_after", "times": max(1, onlyOnce[operation])})
		}
		p := e.ask(r)
		<-p.answered
		e.resolved(operations[0], p)
	})
}

// resolved checks the answer to a request that lost one of the platform's: a
// success, which is true, or that the outcome is not known yet.
func (e *errand) resolved(operation string, p *pending) bool {
	e.t.Helper()
	if p.err != nil {
		e.t.Fatalf("%s: %v", operation, p.err)
	}
	status := p.got.status
	if page, ok := p.got.object["page_status"].(float64); ok {
		status = int(page)
	}
	if !slices.Contains([]int{http.StatusOK, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, status) {
		e.t.Errorf("%s: %d %s", operation, status, p.got.raw)
	}
	return status == http.StatusOK
}
