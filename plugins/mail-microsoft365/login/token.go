// SPDX-License-Identifier: Apache-2.0

// Package login talks to Microsoft's login host. It handles admin consent, the sign-in of an
// administrator, and the access tokens of the application itself.
//
//   - token.go: Host, AppToken, which requests an access token, and Check, which tests the
//     credential. Start here.
//   - source.go, cache.go: TokenSource and TokenCache, which keep tokens between calls.
//   - credential.go: Credential, the client secret or certificate.
//   - consent.go: the consent page and its callback.
//   - signin.go, discovery.go, keys.go, idtoken.go: the sign-in and the checks of its ID token.
//   - refusal.go: Failure, and what the AADSTS numbers mean.
package login

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// Host is the login host, with the settings of one connection.
type Host struct {
	URL        string // without a trailing slash
	HTTP       *http.Client
	Retry      call.RetryPolicy
	Credential Credential
	Keys       *KeyCache
	Now        func() time.Time
	Waits      *sdk.Waits
}

// Token is an access token of the application for one tenant.
type Token struct {
	Value    secret.Text
	Expires  time.Time
	Obtained time.Time
}

// renewBefore is the largest margin before the expiry of a token (see isUsable).
const renewBefore = 5 * time.Minute

// isUsable reports whether the token can be used for a call that starts now. The margin before the
// expiry is renewBefore, or a fifth of the lifetime if that is shorter.
func (t Token) isUsable(now time.Time) bool {
	margin := min(renewBefore, t.Expires.Sub(t.Obtained)/5)
	return now.Before(t.Expires.Add(-margin))
}

// AppToken requests a new access token for scope with the client credentials grant. Its error
// contains a *Failure if the login host refuses the request.
func (h Host) AppToken(ctx context.Context, id tenant.GUID, scope string) (Token, error) {
	return h.appToken(ctx, string(id), scope)
}

// appToken requests a token in a tenant. tenantName is the tenant's id or one of its domains.
func (h Host) appToken(ctx context.Context, tenantName, scope string) (Token, error) {
	endpoint := h.URL + "/" + tenantName + "/oauth2/v2.0/token"
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {scope}}
	// A token request changes nothing, so it may be repeated like a read.
	got, err := call.Retry(ctx, h.Retry, call.Read, func() (tokenAnswer, error) {
		got, err := h.requestToken(ctx, call.Read, endpoint, form)
		if err == nil && got.AccessToken == "" {
			err = call.Broken("login", "token_unreadable")
		}
		return got, err
	})
	if err != nil {
		return Token{}, err
	}
	now := h.Now()
	return Token{Value: secret.New(got.AccessToken), Obtained: now, Expires: now.Add(got.lifetime())}, nil
}

type tokenAnswer struct {
	AccessToken string          `json:"access_token"`
	IDToken     string          `json:"id_token"`
	ExpiresIn   json.RawMessage `json:"expires_in"` // seconds, as a number or a string
}

// lifetime returns how long the token is valid, at most 24 hours. If expires_in is not valid, it
// returns one hour, which is the usual value. If the token expires earlier, it is replaced after a
// 401 answer.
func (a tokenAnswer) lifetime() time.Duration {
	seconds, err := strconv.Atoi(string(bytes.Trim(a.ExpiresIn, `"`)))
	if err != nil || seconds <= 0 {
		return time.Hour
	}
	return time.Duration(min(seconds, 86400)) * time.Second
}

func (h Host) requestToken(ctx context.Context, effect call.Effect, endpoint string, form url.Values) (tokenAnswer, error) {
	proof, err := h.Credential.proof(endpoint, h.Now())
	if err != nil {
		return tokenAnswer{}, err
	}
	maps.Copy(proof, form)
	resp, err := call.Send(ctx, h.HTTP, call.Request{
		Effect: effect, Method: http.MethodPost, URL: endpoint, Route: "/{tenant}/oauth2/v2.0/token",
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}},
		Body:   []byte(proof.Encode()), Gate: h.gate(endpoint),
	})
	if err != nil {
		return tokenAnswer{}, err
	}
	if resp.Status != http.StatusOK {
		return tokenAnswer{}, failureFromResponse(resp)
	}
	var got tokenAnswer
	if json.Unmarshal(resp.Body, &got) != nil {
		return tokenAnswer{}, call.Broken("login", "token_unreadable")
	}
	return got, nil
}

// gate returns the gate that delays a request after a Retry-After. The login host throttles the
// requests of an application for one tenant. The tenant is the first element of the path.
func (h Host) gate(address string) call.Gate {
	tenantName, _, _ := strings.Cut(strings.TrimPrefix(address, h.URL+"/"), "/")
	return call.Gate{Waits: h.Waits, Scopes: []string{"login/" + strings.ToLower(tenantName)}}
}

// Payload contains claims of an access token. The plugin does not verify the signature of the
// token, so Payload must not be used to allow anything.
type Payload struct {
	ObjectID string   `json:"oid"`
	Roles    []string `json:"roles"`
}

// Payload decodes the claims of the token. It returns false if the token is not a JWT that can be
// decoded.
func (t Token) Payload() (Payload, bool) {
	parts := strings.Split(t.Value.Reveal(), ".")
	if len(parts) != 3 {
		return Payload{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Payload{}, false
	}
	var p Payload
	if json.Unmarshal(raw, &p) != nil {
		return Payload{}, false
	}
	return p, true
}

// NoHomeTenant is the value of the setting home_tenant if the operator has not set it.
const NoHomeTenant = "organizations"

var tenantNamePattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)

// IsTenantName reports whether name can identify a tenant in a path.
func IsTenantName(name string) bool { return tenantNamePattern.MatchString(name) }

// credentialProblems maps each AADSTS number of the class operatorError to a text that says what is
// wrong with the credential.
var credentialProblems = map[int]string{
	7000215: "the client secret is not one of this application",
	7000222: "the client secret has expired",
	700027:  "the certificate is not registered with this application, or is not valid",
}

// Check requests a token of the application in its home tenant. If the client id, the credential or
// the home tenant is wrong, it returns an AccessDenied refusal that says what is wrong. For
// NoHomeTenant, the request never succeeds. It still detects a wrong client id or credential,
// because the login host is assumed to check these before the tenant.
func (h Host) Check(ctx context.Context, homeTenant, scope string) error {
	_, err := h.appToken(ctx, homeTenant, scope)
	var f *Failure
	if !errors.As(err, &f) {
		return err
	}
	switch {
	case f.class == operatorError:
		detail := credentialProblems[f.AADSTS]
		if detail == "" {
			detail = "the application's credential was refused"
		}
		return call.Refuse(fault.AccessDenied, detail, f.Outcome.Cause)
	case f.class == applicationUnknown && homeTenant != NoHomeTenant:
		return call.Refuse(fault.AccessDenied, "the tenant home_tenant has no application with this client id", f.Outcome.Cause)
	case f.class == applicationUnknown:
		return call.Refuse(fault.AccessDenied, "there is no application with this client id", f.Outcome.Cause)
	case f.class == noAccess && homeTenant != NoHomeTenant:
		return call.Refuse(fault.AccessDenied, "home_tenant is not the tenant that the application is registered in", f.Outcome.Cause)
	case homeTenant == NoHomeTenant && f.AADSTS != 0 && (f.class == unexpected || f.class == noAccess):
		return nil
	default:
		return err
	}
}
