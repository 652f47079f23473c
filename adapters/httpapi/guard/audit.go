// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// beginAct puts the act of a request into the context. The act of an operation has the data of the
// audit entry. Operations with the method GET get no act. The act of a page contains only the
// client's address and the request id.
func (g *guard) beginAct(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := exchangeOf(r.Context())
		switch {
		case e.isPage:
			e.act = &ports.Act{Entry: audit.Entry{RequestID: e.id, ClientIP: e.clientText()}}
		case e.route.op != nil && mayHaveBody(e.route.op.Method):
			e.act = g.newAct(r, e)
		default:
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r.WithContext(ports.WithAct(r.Context(), e.act)))
	})
}

// unknownOperation is the action in the audit entry of a refused request that matches no operation.
const unknownOperation = "unknown"

// newAct returns the act of a request by a known key.
func (g *guard) newAct(r *http.Request, e *exchange) *ports.Act {
	var entropy [ident.EntropyBytes]byte
	_, _ = rand.Read(entropy[:]) // never fails
	entry := audit.Entry{
		ID: ident.New(g.idempotency.Now(), entropy), Account: e.caller.Account.ID,
		Actor:  audit.Actor{Type: audit.Key, ID: e.caller.KeyID, Name: e.caller.KeyName},
		Action: unknownOperation, RequestID: e.id, ClientIP: e.clientText(),
	}
	if e.route.op != nil {
		entry.Action = audit.Action(e.route.op.OperationID)
		entry.Tenant, entry.Subject = objectOf(e.route.path, r.URL.EscapedPath())
		if e.route.path == rotatePath {
			entry.Subject = audit.Subject{Type: string(event.Key), ID: e.caller.KeyID}
		}
	}
	return &ports.Act{Entry: entry, Write: []byte(entry.ID)}
}

// rotatePath is the path of the operation whose object is the API key of the request.
const rotatePath = "/api-key/rotate"

func (e *exchange) clientText() string {
	if !e.client.IsValid() {
		return ""
	}
	return e.client.String()
}

// subjectTypes maps the name of a path parameter, without its suffix _id, to the subject type. It
// has only the names that differ from the subject type.
var subjectTypes = map[string]string{"run": string(event.DNSRun), "job": string(event.DNSJob)}

// maxSubjectLength limits the length of an id that comes from a path and is not a UUID. A domain
// has at most 253 characters.
const maxSubjectLength = 253

// objectOf returns the tenant and the object that a path names. The object is the last parameter of
// the path. It returns no object if this parameter is malformed or too long.
func objectOf(template, path string) (tenantID tenant.GUID, subject audit.Subject) {
	values := strings.Split(path, "/")
	for i, segment := range strings.Split(template, "/") {
		name, isParameter := strings.CutPrefix(segment, "{")
		if !isParameter || i >= len(values) {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		value, err := url.PathUnescape(values[i])
		subjectType, isID := strings.CutSuffix(name, "_id")
		if isID {
			value, _ = ident.Parse(value)
		}
		if err != nil || value == "" || len(value) > maxSubjectLength {
			subject = audit.Subject{}
			continue
		}
		if name == "tenant_id" {
			tenantID = tenant.GUID(value)
		}
		subjectType = strings.TrimSuffix(subjectType, "_name")
		if mapped := subjectTypes[subjectType]; mapped != "" {
			subjectType = mapped
		}
		subject = audit.Subject{Type: subjectType, ID: value}
	}
	return tenantID, subject
}

// setCreatedSubject sets the subject of the act to the object that the operation created. It reads
// the object's id from a successful answer.
func (r OperationRules) setCreatedSubject(act *ports.Act, a *answer) {
	if r.Creates == "" || !isSuccess(a.status) {
		return
	}
	var body map[string]json.RawMessage
	if json.Unmarshal(a.body.Bytes(), &body) != nil {
		return
	}
	var object struct {
		ID   string `json:"id"`
		Name string `json:"domain_name"` // the subject of a domain is its name, as in paths
	}
	if rawObject, ok := body[string(r.Creates)]; ok {
		_ = json.Unmarshal(rawObject, &object) // if there is no id, the object of the path stays the subject
	} else {
		_ = json.Unmarshal(body["id"], &object.ID)
	}
	if id := cmp.Or(object.ID, object.Name); id != "" {
		act.Entry.Subject = audit.Subject{Type: string(r.Creates), ID: id}
	}
}

func isSuccess(status int) bool { return status >= 200 && status < 300 }

func isUnauthorizedOrForbidden(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// outcomeOf returns the outcome of the audit entry for an answer, or nil if the answer gets no
// entry. A write that failed with a 5xx status gets an entry only if it may have changed something.
func (e *exchange) outcomeOf(a *answer, mayHaveChanged bool) *audit.Outcome {
	if !isSuccess(a.status) && !isUnauthorizedOrForbidden(a.status) && (a.status < http.StatusInternalServerError || !mayHaveChanged) {
		return nil
	}
	o := audit.Outcome{Status: a.status}
	if e.refusal != nil && !isSuccess(a.status) {
		o.Code = e.refusal.Code.Name
	}
	return &o
}

// endAct writes the audit entry of a request before its answer is sent. It writes nothing if the
// entry was committed with the answer. A read gets an entry only if a known key was refused with
// 401 or 403.
//
// endAct returns an error if the key exceeds deniedQuota, or if the entry cannot be stored. If the
// answer has a 5xx status, or if the act may be stored already, endAct only logs the error of the
// store. The background job RecordLostWrites (app/audits) later makes the entry from a stored act.
func (g *guard) endAct(r *http.Request, a *answer) error {
	e := exchangeOf(r.Context())
	act := e.act
	if e.isPage || e.caller.KeyID == "" || act == nil && !isUnauthorizedOrForbidden(a.status) {
		return nil
	}
	if act == nil {
		act = g.newAct(r, e)
	}
	if act.State() == ports.ActEnded {
		return nil
	}
	outcome := e.outcomeOf(a, act.State() != ports.ActNew || e.run != nil && e.run.calledProvider())
	if e.wasReplayed || e.lostKey {
		outcome = nil // the entry was written by the request that executed the operation
	}
	if outcome == nil && act.State() == ports.ActNew {
		return nil
	}
	if outcome != nil && isUnauthorizedOrForbidden(a.status) && a.header.Get(bucketHeader) == "" {
		if err := g.countDenied(r, a, e); err != nil {
			return err
		}
	}
	e.route.rules.setCreatedSubject(act, a)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ports.WithAct(r.Context(), act)), storeTimeout)
	defer cancel()
	err := g.audit.EndAct(ctx, outcome)
	if err != nil && (act.State() != ports.ActNew || a.status >= http.StatusInternalServerError) {
		g.log.LogAttrs(ctx, slog.LevelWarn, "the outcome of a request is missing in the audit", errorAttr(err))
		return nil
	}
	return err
}

func (x *run) calledProvider() bool { return x.effects.Recorded().ProviderCalled }

// deniedQuota limits the requests of a key that get a 401 or 403 answer and count in no other
// bucket. Each such request adds an audit entry. Without the limit, a revoked key could fill the
// disk.
var deniedQuota = ratelimit.Bucket{Limit: 1000, Window: time.Hour}

// DeniedRequests is the value of X-RateLimit-Bucket for a request that exceeds deniedQuota.
const DeniedRequests = "denied"

// countDenied counts a request that was refused with 401 or 403. It returns a rate_limit_exceeded
// error if the key made too many such requests.
func (g *guard) countDenied(r *http.Request, a *answer, e *exchange) error {
	quota := deniedQuota
	quota.Key = DeniedRequests + ":" + e.caller.KeyID
	decision, _ := g.limits.Counters.Take(r.Context(), quota)
	if decision.Allowed || g.limits.Off {
		return nil
	}
	g.setRateHeaders(a, DeniedRequests, decision)
	g.countRefusal(r.Context(), DeniedRequests)
	return fault.RateLimitExceeded.RetryIn(max(decision.RetryIn, time.Second), "the key was refused %d times in an hour", decision.Limit)
}
