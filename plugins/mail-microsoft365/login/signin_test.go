// SPDX-License-Identifier: Apache-2.0

package login

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
)

func TestConsentURLHasScopeStateAndRedirect(t *testing.T) {
	got := Host{URL: "https://login.microsoftonline.com", Credential: Credential{ClientID: clientID}}.ConsentURL(
		"https://graph.microsoft.com/.default", "v1.state", "https://app.example.net/connect/microsoft365/callback")
	want := "https://login.microsoftonline.com/organizations/v2.0/adminconsent?client_id=5f1c2b7e-0000-4c1d-9a2b-111122223333" +
		"&redirect_uri=https%3A%2F%2Fapp.example.net%2Fconnect%2Fmicrosoft365%2Fcallback" +
		"&scope=https%3A%2F%2Fgraph.microsoft.com%2F.default&state=v1.state"
	if got != want {
		t.Fatalf("got %s\nwant %s", got, want)
	}
}

func TestSignInURLHasNonceAndCodeChallenge(t *testing.T) {
	fake := newFakeLogin(t)
	signIn := fake.signIn()
	got, err := fake.host().SignInURL(t.Context(), signIn)
	if err != nil {
		t.Fatal(err)
	}
	page, rawQuery, _ := strings.Cut(got, "?")
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{
		"client_id": {clientID}, "response_type": {"code"}, "response_mode": {"query"}, "redirect_uri": {signIn.Redirect},
		"scope": {"openid profile"}, "state": {signIn.State}, "nonce": {signIn.Nonce}, "prompt": {"select_account"},
		"code_challenge": {oauth2.S256ChallengeFromVerifier(signIn.Verifier.Reveal())}, "code_challenge_method": {"S256"},
	}
	if page != fake.url+"/"+string(guid)+"/oauth2/v2.0/authorize" || !cmp.Equal(query, want) {
		t.Fatalf("the page is %s, want the tenant's authorize page; the query (-want +got):\n%s", page, cmp.Diff(want, query))
	}
}

func TestRedeemCodeReturnsThePersonInTheToken(t *testing.T) {
	fake := newFakeLogin(t)
	fake.answer = func(url.Values) (int, any) {
		return http.StatusOK, map[string]any{"token_type": "Bearer", "access_token": "a", "expires_in": 3600, "id_token": fake.idToken(nil)}
	}
	got, err := fake.host().RedeemCode(t.Context(), fake.signIn(), secret.New("c0de"))
	if err != nil {
		t.Fatal(err)
	}
	want := Person{
		ObjectID: "c0a8f7de-3b51-4d7e-9f55-7a2f0d6e1b90", Address: "ada@fabrikam-mail.example", Name: "Ada Admin",
		Roles: []string{"62e90394-69f5-4237-9190-012177145e10"},
	}
	if !cmp.Equal(got, want) {
		t.Fatalf("the person (-want +got):\n%s", cmp.Diff(want, got))
	}
	wantForm := url.Values{
		"grant_type": {"authorization_code"}, "code": {"c0de"}, "redirect_uri": {fake.signIn().Redirect},
		"code_verifier": {fake.signIn().Verifier.Reveal()}, "client_id": {clientID}, "client_secret": {"s3cret"},
	}
	if len(fake.forms) != 1 || !cmp.Equal(fake.forms[0], wantForm) {
		t.Fatalf("the sent forms (-want +got):\n%s", cmp.Diff([]url.Values{wantForm}, fake.forms))
	}
}

func TestIDTokensOfOtherSignInsAreRefused(t *testing.T) {
	now := time.Now()
	secondsAfterNow := func(d time.Duration) int64 { return now.Add(d).Unix() }
	const idpPrefix = "https://sts.windows.net/"
	for name, tc := range map[string]struct {
		claims map[string]any
		want   error // nil if the token is accepted
	}{
		"as issued":                     {nil, nil},
		"different audience":            {map[string]any{"aud": "11111111-0000-4c1d-9a2b-111122223333"}, fault.ConnectLinkInvalid},
		"several audiences":             {map[string]any{"aud": []string{"other", clientID}}, nil},
		"different issuer":              {map[string]any{"iss": "https://evil.example/v2.0"}, fault.ConnectLinkInvalid},
		"different tenant":              {map[string]any{"tid": "11111111-6a0e-4a55-8f0e-0c2f5b6a9d11"}, fault.ConnectLinkInvalid},
		"tenant in upper case":          {map[string]any{"tid": strings.ToUpper(string(guid))}, nil},
		"no tenant":                     {map[string]any{"tid": nil}, fault.ConnectLinkInvalid},
		"personal account":              {map[string]any{"tid": string(consumers)}, fault.ConnectLinkInvalid},
		"different nonce":               {map[string]any{"nonce": "other"}, fault.ConnectLinkInvalid},
		"no nonce":                      {map[string]any{"nonce": nil}, fault.ConnectLinkInvalid},
		"expired within skew":           {map[string]any{"exp": secondsAfterNow(-4 * time.Minute)}, nil},
		"expired":                       {map[string]any{"exp": secondsAfterNow(-6 * time.Minute)}, fault.ConnectLinkInvalid},
		"no expiry":                     {map[string]any{"exp": nil}, fault.ConnectLinkInvalid},
		"begins within skew":            {map[string]any{"nbf": secondsAfterNow(4 * time.Minute)}, nil},
		"begins later":                  {map[string]any{"nbf": secondsAfterNow(6 * time.Minute)}, fault.ConnectLinkInvalid},
		"issued in the future":          {map[string]any{"iat": secondsAfterNow(6 * time.Minute)}, fault.ConnectLinkInvalid},
		"guest":                         {map[string]any{"idp": idpPrefix + "22222222-6a0e-4a55-8f0e-0c2f5b6a9d11/"}, fault.NotAdministrator},
		"guest with a personal account": {map[string]any{"idp": "live.com"}, fault.NotAdministrator},
		"own tenant in idp":             {map[string]any{"idp": idpPrefix + string(guid) + "/"}, nil},
		"without address or wids":       {map[string]any{"preferred_username": nil, "wids": nil}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakeLogin(t)
			fake.answer = func(url.Values) (int, any) {
				return http.StatusOK, map[string]any{"access_token": "a", "id_token": fake.idToken(tc.claims)}
			}
			_, err := fake.host().RedeemCode(t.Context(), fake.signIn(), secret.New("c0de"))
			if !errors.Is(err, tc.want) || (tc.want == nil && err != nil) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestForgedIDTokensAreRefused(t *testing.T) {
	fake, forger := newFakeLogin(t), newFakeLogin(t)
	forger.key = newKey()
	validToken := fake.idToken(nil)
	parts := strings.Split(validToken, ".")
	for name, token := range map[string]string{
		"a key that is not published": forger.idToken(map[string]any{"iss": fake.url + "/" + string(guid) + "/v2.0"}),
		"no signature":                parts[0] + "." + parts[1] + ".",
		// The header of this token is {"alg":"none"}.
		"unsigned": "eyJhbGciOiJub25lIn0." + parts[1] + ".",
		"empty":    "",
	} {
		t.Run(name, func(t *testing.T) {
			fake.answer = func(url.Values) (int, any) {
				return http.StatusOK, map[string]any{"access_token": "a", "id_token": token}
			}
			_, err := fake.host().RedeemCode(t.Context(), fake.signIn(), secret.New("c0de"))
			if !errors.Is(err, fault.ConnectLinkInvalid) {
				t.Fatalf("got %v, want connect_link_invalid", err)
			}
		})
	}
}

func TestRefusedCodesBecomeOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   map[string]any
		want   error
		kind   outcome.Kind
	}{
		"used before":              {400, map[string]any{"error": "invalid_grant", "error_codes": []int{54005}}, fault.ConnectLinkInvalid, outcome.Refused},
		"different verifier":       {400, map[string]any{"error": "invalid_grant", "error_codes": []int{501481}}, fault.ConnectLinkInvalid, outcome.Refused},
		"without number":           {400, map[string]any{"error": "invalid_grant"}, fault.ConnectLinkInvalid, outcome.Refused},
		"not consented":            {400, map[string]any{"error": "invalid_grant", "error_codes": []int{65001}}, fault.ConsentDeclined, outcome.Refused},
		"application unknown":      {400, map[string]any{"error": "unauthorized_client", "error_codes": []int{700016}}, fault.ConsentDeclined, outcome.Refused},
		"conditional access":       {400, map[string]any{"error": "access_denied", "error_codes": []int{53003}}, fault.ConsentDeclined, outcome.Refused},
		"tenant gone":              {400, map[string]any{"error": "invalid_request", "error_codes": []int{90002}}, fault.ConnectLinkInvalid, outcome.Refused},
		"wrong application secret": {401, map[string]any{"error": "invalid_client", "error_codes": []int{7000215}}, fault.ProviderUnavailable, outcome.Down},
		"out of service":           {503, map[string]any{}, fault.ProviderUnavailable, outcome.Down},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakeLogin(t)
			fake.answer = func(url.Values) (int, any) { return tc.status, tc.body }
			_, err := fake.host().RedeemCode(t.Context(), fake.signIn(), secret.New("c0de"))
			if !errors.Is(err, tc.want) || outcome.KindOf(err) != tc.kind {
				t.Fatalf("got %v, want %s %v", err, tc.kind, tc.want)
			}
			if len(fake.forms) != 1 {
				t.Fatalf("the code was sent %d times, want once", len(fake.forms))
			}
		})
	}
}
