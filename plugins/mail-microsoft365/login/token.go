// SPDX-License-Identifier: Apache-2.0

// Package login talks to Microsoft's login host: consent, an administrator's
// sign-in, and the tokens of the application itself.
package login

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// Host is the login host as one connection uses it.
type Host struct {
	URL        string // without a final slash
	HTTP       *http.Client
	Patience   call.Patience
	Credential Credential
	Keys       *Keys
	Now        func() time.Time
}

// Token is an access token of the application in one tenant.
type Token struct {
	Value    secret.Text
	Expires  time.Time
	Obtained time.Time
}

// renewBefore is how long before its end a token is renewed.
const renewBefore = 5 * time.Minute

// usable leaves a margin of five minutes, or of a fifth of a life so short
// that five minutes would be most of it.
func (t Token) usable(now time.Time) bool {
	margin := min(renewBefore, t.Expires.Sub(t.Obtained)/5)
	return now.Before(t.Expires.Add(-margin))
}

// AppToken gets a new token for scope by client credentials.
func (h Host) AppToken(ctx context.Context, id tenant.GUID, scope string) (Token, error) {
	return h.appToken(ctx, string(id), scope)
}

// appToken names the tenant as the login host takes it: by id, by domain.
func (h Host) appToken(ctx context.Context, at, scope string) (Token, error) {
	endpoint := h.URL + "/" + at + "/oauth2/v2.0/token"
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {scope}}
	// A token that goes unused changes nothing, so this is as good as a read.
	got, err := call.Retry(ctx, h.Patience, call.Read, func() (tokenAnswer, error) {
		got, err := h.redeem(ctx, call.Read, endpoint, form)
		if err == nil && got.AccessToken == "" {
			err = call.Broken("login", "token_unreadable")
		}
		return got, err
	})
	if err != nil {
		return Token{}, err
	}
	now := h.Now()
	return Token{Value: secret.New(got.AccessToken), Obtained: now, Expires: now.Add(got.life())}, nil
}

type tokenAnswer struct {
	AccessToken string          `json:"access_token"`
	IDToken     string          `json:"id_token"`
	ExpiresIn   json.RawMessage `json:"expires_in"` // a number, or a number in quotes
}

// life is how long the token is good for; the usual hour when the answer does
// not say, since a 401 renews it anyway.
func (a tokenAnswer) life() time.Duration {
	seconds, err := strconv.Atoi(string(bytes.Trim(a.ExpiresIn, `"`)))
	if err != nil || seconds <= 0 {
		return time.Hour
	}
	return time.Duration(min(seconds, 86400)) * time.Second
}

// redeem posts a form to a token endpoint.
func (h Host) redeem(ctx context.Context, effect call.Effect, endpoint string, form url.Values) (tokenAnswer, error) {
	proof, err := h.Credential.proof(endpoint, h.Now())
	if err != nil {
		return tokenAnswer{}, err
	}
	for name, values := range form {
		proof[name] = values
	}
	a, err := call.Once(ctx, h.HTTP, call.Request{
		Effect: effect, Method: http.MethodPost, URL: endpoint, Route: "/{tenant}/oauth2/v2.0/token",
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}},
		Body:   []byte(proof.Encode()),
	})
	if err != nil {
		return tokenAnswer{}, err
	}
	if a.Status != http.StatusOK {
		return tokenAnswer{}, failure(a)
	}
	var got tokenAnswer
	if json.Unmarshal(a.Body, &got) != nil {
		return tokenAnswer{}, call.Broken("login", "token_unreadable")
	}
	return got, nil
}

// Payload is what an app-only token says of itself. It is a token for someone
// else, so nothing may be allowed because of it.
type Payload struct {
	ObjectID string   `json:"oid"`
	Roles    []string `json:"roles"`
}

// Payload reads the token and reports whether it could be read.
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
