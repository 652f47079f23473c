// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// acmeDNS implements sdk.DNSProvider for one connection.
type acmeDNS struct {
	sdk.DNSProvider // the methods that are not written yet

	http  *http.Client
	base  string
	token sdk.Secret
}

// Check tests the token with a request for the zones. The deadline of ctx ends the request.
func (d acmeDNS) Check(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+"/zones", nil)
	if err != nil {
		return 0, sdk.Misconfigured("api_url", "it is not a URL")
	}
	req.Header.Set("Authorization", "Bearer "+d.token.Reveal())
	resp, err := d.http.Do(req)
	if err != nil {
		return 0, sdk.TransportError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := sdk.StatusError(resp.StatusCode, resp.Header, time.Now()); err != nil {
		return 0, err
	}
	return 1, nil
}

// The main function of a plugin calls Serve. The host starts the program. Serve calls DNS for each
// call of the host, with the settings and secrets of this call.
func ExampleServe() {
	client, waits := sdk.NewHTTPClient(15*time.Second), sdk.NewWaits(nil) // shared by all calls
	plugin := sdk.Plugin{
		Describe: sdk.Description{
			Name: "acme", Kind: "dns", Version: "1.0.0", Title: "Acme DNS",
			Fields: []sdk.Field{
				{Name: "api_token", Account: true, Required: true, Secret: true, Help: "token of the API"},
				{Name: "api_url", Default: "https://api.acme.example", Help: "base URL of the API"},
			},
			Budgets: []sdk.Budget{{Key: "credential", Limit: 600, Window: time.Minute}},
		},
		DNS: func(c sdk.Connection) (sdk.DNSProvider, error) {
			return acmeDNS{http: waits.Client(client, c.Fingerprint()), base: c.Settings["api_url"], token: c.Secrets["api_token"]}, nil
		},
		Waits: waits,
	}
	sdk.Serve(plugin) // does not return
}

// StatusError returns an error for a status that has the same meaning at every provider. The plugin
// classifies the other statuses.
func ExampleStatusError() {
	header := http.Header{"Retry-After": {"30"}}
	fmt.Println(sdk.StatusError(http.StatusTooManyRequests, header, time.Now()))
	fmt.Println(sdk.StatusError(http.StatusUnauthorized, nil, time.Now()))
	// Output:
	// provider throttled (status 429): the provider wants us to wait
	// <nil>
}

// OutcomeOf distinguishes a refusal from a failure with an unknown effect, so that the plugin can
// decide whether to send a different request.
func ExampleOutcomeOf() {
	firstErr := fmt.Errorf("the first request: %w", sdk.RequestRefused("status 404"))
	if sdk.OutcomeOf(firstErr).Kind == sdk.Refused {
		fmt.Println("continue with the second request")
	}
	secondErr := sdk.TransportError(context.DeadlineExceeded)
	fmt.Println(sdk.OutcomeOf(secondErr).Kind, sdk.OutcomeOf(nil) == sdk.Outcome{})
	// Output:
	// continue with the second request
	// unknown true
}

// A printed secret does not show its text. Reveal returns the text for the request to the provider.
func ExampleSecret() {
	token := sdk.NewSecret("tok-123")
	fmt.Println(token, len(token.Reveal()))
	// Output: [redacted] 7
}

// Outstanding returns the changes that the zone does not have yet, so that a repeated write changes
// nothing.
func ExampleOutstanding() {
	none := sdk.RRSet{Name: "a.test", Type: sdk.TXT}
	spf := sdk.RRSet{Name: "a.test", Type: sdk.TXT, TTL: 300, Values: []string{"v=spf1 -all"}}
	change := sdk.Change{Before: none, After: spf}

	missing, err := sdk.Outstanding(nil, []sdk.Change{change})
	fmt.Println(len(missing), err)
	missingAfterWrite, err := sdk.Outstanding([]sdk.RRSet{spf}, []sdk.Change{change})
	fmt.Println(len(missingAfterWrite), err)
	foreign := sdk.RRSet{Name: "a.test", Type: sdk.TXT, TTL: 300, Values: []string{"v=spf1 mx -all"}}
	_, err = sdk.Outstanding([]sdk.RRSet{foreign}, []sdk.Change{change})
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// 0 <nil>
	// provider refused (zone_changed): the zone has changed since the write was planned; nothing was written
}

// Many APIs write TXT records as quoted strings of at most 255 bytes.
func ExampleWriteContent() {
	fmt.Println(sdk.WriteContent(sdk.TXT, `v=spf1 include:"x" -all`))
	fmt.Println(sdk.WriteContent(sdk.MX, "10 mx.acme.example"))
	value, err := sdk.ReadContent(sdk.MX, "10 MX.Acme.Example.")
	fmt.Println(value, err)
	// Output:
	// "v=spf1 include:\"x\" -all"
	// 10 mx.acme.example.
	// 10 mx.acme.example <nil>
}
