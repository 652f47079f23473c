// SPDX-License-Identifier: Apache-2.0

package login

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// operatorWait is when a call after a refused credential of ours is worth it
// at the earliest: a person has to replace the credential first.
const operatorWait = time.Minute

// What is wrong with our own configuration. It is never the customer's fault.
var (
	errCertificate  = misconfigured("client_certificate")
	errNoClient     = misconfigured("client_id")
	errNoCredential = misconfigured("client_secret")
)

func misconfigured(field string) error {
	return &outcome.Error{
		Kind: outcome.Refused, Code: fault.ServiceUnavailable, Cause: call.Cause("setting", field),
		Detail: "the mail platform is not configured", RetryAfter: operatorWait,
	}
}

// class is what an AADSTS number means to us.
type class int

const (
	unknown      class = iota
	consentLost        // no consent, or the tenant is gone
	notConsented       // our application is unknown in the tenant: lost, or not replicated yet
	operator           // the operator's credential or registration
	noExchange         // the tenant never had the mail server
	blocked            // a policy of the tenant keeps us out
	looping            // we ask for the same again and again
	throttled
	transient
	busy // the service principal is being made right now
	bug
)

// meaning is the table of AADSTS numbers. The README says which are verified.
var meaning = map[int]class{
	70011:   bug,          // scope malformed
	50011:   bug,          // redirect URI not registered
	65001:   consentLost,  // not consented (delegated)
	65004:   consentLost,  // declined
	90002:   consentLost,  // tenant not found
	900023:  consentLost,  // tenant identifier not valid
	5000224: consentLost,  // tenant deleted
	700016:  notConsented, // no service principal of ours
	7000112: consentLost,  // our application is disabled there
	7000215: operator,     // wrong secret
	7000222: operator,     // secret expired
	700027:  operator,     // assertion not valid
	500011:  noExchange,   // no service principal of the resource
	650052:  noExchange,   // not subscribed to a service
	650051:  busy,
	53003:   blocked, // Conditional Access
	50196:   looping,
	90033:   transient,
	90013:   transient,
}

// Failure is an error answer of the login host.
type Failure struct {
	Outcome *outcome.Error
	AADSTS  int // 0 when the answer has no number
	OAuth   string
	class   class
}

func (f *Failure) Error() string { return f.Outcome.Error() }

// Unwrap gives the outcome.
func (f *Failure) Unwrap() error { return f.Outcome }

// errorBody is an OAuth error; Microsoft adds its own numbers.
type errorBody struct {
	Error       json.RawMessage `json:"error"`
	Description string          `json:"error_description"`
	Codes       []int           `json:"error_codes"`
}

// failure reads an error answer: by number, not by text.
func failure(a call.Answer) error {
	var body errorBody
	_ = json.Unmarshal(a.Body, &body) // pages of proxies are not JSON
	var oauth string
	_ = json.Unmarshal(body.Error, &oauth)
	number := aadsts(body.Description)
	if len(body.Codes) > 0 {
		number = body.Codes[0]
	}
	c := meaning[number]
	if c == unknown {
		c = byStatus(a, oauth)
	}
	f := &Failure{AADSTS: number, OAuth: oauth, class: c, Outcome: c.outcome(a)}
	f.Outcome.Cause = cause(number, oauth, a.Status)
	if c == operator || c == looping {
		return call.Final(f)
	}
	return f
}

func byStatus(a call.Answer, oauth string) class {
	switch {
	case a.Status == http.StatusTooManyRequests:
		return throttled
	case a.Status >= http.StatusInternalServerError, oauth == "temporarily_unavailable":
		return transient
	case oauth == "invalid_client":
		return operator
	case oauth == "unauthorized_client":
		return consentLost
	default:
		return bug
	}
}

// outcome is the reaction to a class where no call has one of its own.
func (c class) outcome(a call.Answer) *outcome.Error {
	wait := call.RetryAfter(a.Header, time.Now())
	switch c {
	case consentLost, notConsented:
		return call.Refuse(fault.AccessDenied, "the tenant's consent is gone")
	case blocked:
		return call.Refuse(fault.AccessDenied, "a policy of the tenant keeps the service out")
	case noExchange:
		return call.Refuse(fault.ExchangeNotReady, "the tenant has no mail server")
	case operator:
		return &outcome.Error{Kind: outcome.Down, Detail: "the service's own credential was refused", RetryAfter: operatorWait}
	case looping:
		return &outcome.Error{Kind: outcome.Throttled, Detail: "the mail platform wants us to wait", RetryAfter: max(wait, operatorWait)}
	case throttled:
		return &outcome.Error{Kind: outcome.Throttled, Detail: "the mail platform wants us to wait", RetryAfter: wait}
	case transient:
		return &outcome.Error{Kind: outcome.Down, Detail: "the mail platform is out of service", RetryAfter: wait}
	case busy:
		return call.NotReady("the mail platform is still taking the consent in")
	default:
		return call.Broken()
	}
}

func cause(number int, oauth string, status int) string {
	if number != 0 {
		return "AADSTS" + strconv.Itoa(number)
	}
	if status == 0 {
		return call.Cause("login", oauth)
	}
	return call.Cause("login", strconv.Itoa(status), oauth)
}

var aadstsForm = regexp.MustCompile(`AADSTS(\d{4,9})`)

// aadsts finds the number in a description, for answers and callbacks that
// carry it nowhere else.
func aadsts(description string) int {
	m := aadstsForm.FindStringSubmatch(description)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // nine digits at most
	return n
}

// Spreading reports whether a refusal may only mean that a new consent has not
// reached every server of the platform: no service principal yet, or a token
// from before the permissions.
func Spreading(err error) bool {
	var f *Failure
	return !errors.As(err, &f) || f.class == notConsented || f.AADSTS == 7000112
}

// NoExchange reports whether the tenant never had the mail server.
func NoExchange(err error) bool {
	var f *Failure
	return errors.As(err, &f) && f.class == noExchange
}
