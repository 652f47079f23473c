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
	"github.com/tenantry/tenantry/plugins/sdk"
)

// operatorRetryDelay is the retry delay if the application's own credential was refused or a
// setting is wrong. It is long, because the operator must first fix the cause. It is also the
// shortest retry delay after a request loop.
const operatorRetryDelay = time.Minute

var (
	errCertificate  = Misconfigured("client_certificate")
	errNoClient     = Misconfigured("client_id")
	errNoCredential = Misconfigured("client_secret")
)

// Misconfigured returns a refusal because of a missing or invalid setting. Its code is
// ServiceUnavailable, because the operator and not the customer must fix the setting.
func Misconfigured(field string) error {
	return &outcome.Error{
		Kind: outcome.Refused, Code: fault.ServiceUnavailable, Cause: call.Cause("setting", field),
		Detail: "a setting of the mail platform is missing or invalid", RetryAfter: operatorRetryDelay,
	}
}

// class is what an error of the login host means.
type class int

const (
	unknown            class = iota // the AADSTS number is not in classes
	noAccess                        // no consent, the application is disabled, or the tenant does not exist
	applicationUnknown              // the tenant does not have the application: consent revoked, or not replicated yet
	operatorError                   // the operator's credential or registration is wrong
	noExchange                      // the tenant has no Exchange subscription
	policyBlocked                   // a policy of the tenant blocks the application
	requestLoop                     // the application sends the same request too often
	throttled
	transient
	consentInProgress // the service principal is being created
	unexpected        // any other error
)

var classes = map[int]class{
	70011:   unexpected,         // scope malformed
	50011:   unexpected,         // redirect URI not registered
	65001:   noAccess,           // not consented (delegated)
	65004:   noAccess,           // declined
	90002:   noAccess,           // tenant not found
	900023:  noAccess,           // tenant identifier not valid
	5000224: noAccess,           // tenant deleted
	700016:  applicationUnknown, // the application has no service principal in the tenant
	7000112: noAccess,           // the application is disabled in the tenant
	7000215: operatorError,      // wrong secret
	7000222: operatorError,      // secret expired
	700027:  operatorError,      // assertion not valid
	500011:  noExchange,         // the resource has no service principal in the tenant
	650052:  noExchange,         // not subscribed to a service
	650051:  consentInProgress,
	53003:   policyBlocked, // Conditional Access
	50196:   requestLoop,
	90033:   transient,
	90013:   transient,
}

// Failure is an error response of the login host. Unwrap returns its outcome.
type Failure struct {
	Outcome *outcome.Error
	AADSTS  int // 0 if the response contains no number
	class   class
}

func (f *Failure) Error() string { return f.Outcome.Error() }

// Unwrap returns the outcome.
func (f *Failure) Unwrap() error { return f.Outcome }

// errorBody is an OAuth error with Microsoft's additional numbers.
type errorBody struct {
	Error       json.RawMessage `json:"error"`
	Description string          `json:"error_description"`
	Codes       []int           `json:"error_codes"`
}

// failureFromResponse converts an error response to a *Failure. It uses the first number in
// error_codes. If error_codes is empty, it uses the number in the description. call.Retry would
// repeat a request that failed with operatorError or requestLoop, so call.Permanent wraps these
// failures.
func failureFromResponse(resp call.Response) error {
	var body errorBody
	_ = json.Unmarshal(resp.Body, &body) // the body may be a proxy's page
	var oauth string
	_ = json.Unmarshal(body.Error, &oauth)
	number := aadstsNumber(body.Description)
	if len(body.Codes) > 0 {
		number = body.Codes[0]
	}
	c := classes[number]
	if c == unknown {
		c = classOfStatus(resp, oauth)
	}
	f := &Failure{AADSTS: number, class: c, Outcome: c.outcome(resp)}
	f.Outcome.Cause = cause(number, oauth, resp.Status)
	if c == operatorError || c == requestLoop {
		return call.Permanent(f)
	}
	return f
}

func classOfStatus(resp call.Response, oauth string) class {
	switch {
	case resp.Status == http.StatusTooManyRequests:
		return throttled
	case resp.Status >= http.StatusInternalServerError, oauth == "temporarily_unavailable":
		return transient
	case oauth == "invalid_client":
		return operatorError
	case oauth == "unauthorized_client":
		return noAccess
	default:
		return unexpected
	}
}

// outcome returns the default outcome of a class. Callers may handle a class differently.
func (c class) outcome(resp call.Response) *outcome.Error {
	wait := sdk.RetryAfter(resp.Header, time.Now())
	switch c {
	case noAccess, applicationUnknown:
		return call.Refuse(fault.AccessDenied, "the tenant's consent is gone")
	case policyBlocked:
		return call.Refuse(fault.AccessDenied, "a policy of the tenant blocks the service")
	case noExchange:
		return call.Refuse(fault.ExchangeNotReady, "the tenant has no mail server")
	case operatorError:
		return &outcome.Error{Kind: outcome.Down, Detail: "the service's own credential was refused", RetryAfter: operatorRetryDelay}
	case requestLoop:
		return &outcome.Error{Kind: outcome.Throttled, Detail: "the mail platform throttles the service's requests", RetryAfter: max(wait, operatorRetryDelay)}
	case throttled:
		return &outcome.Error{Kind: outcome.Throttled, Detail: "the mail platform throttles the service's requests", RetryAfter: wait}
	case transient:
		return &outcome.Error{Kind: outcome.Down, Detail: "the mail platform is out of service", RetryAfter: wait}
	case consentInProgress:
		return call.NotReady("the mail platform is still processing the consent")
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

var aadstsPattern = regexp.MustCompile(`AADSTS(\d{4,9})`)

// aadstsNumber returns the number in a description, or 0. Callbacks and some responses contain the
// number nowhere else.
func aadstsNumber(description string) int {
	m := aadstsPattern.FindStringSubmatch(description)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // at most nine digits, so it cannot overflow
	return n
}

// MayBePropagating reports whether an AccessDenied refusal can mean that a new consent has not
// reached all of Microsoft's servers. The login host then answers that the tenant does not have the
// application or has disabled it. A refusal that is not a *Failure comes from an API. It always
// counts, because the token may have been issued before the permissions were granted.
func MayBePropagating(err error) bool {
	var f *Failure
	return !errors.As(err, &f) || f.class == applicationUnknown || f.AADSTS == 7000112
}

// IsNoExchange reports whether err says that the tenant has no Exchange subscription.
func IsNoExchange(err error) bool {
	var f *Failure
	return errors.As(err, &f) && f.class == noExchange
}
