// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// client is shared by all calls. With two of the bugs it is a plain http.Client, without the limits
// of the SDK's client.
var client = func() *http.Client {
	if bug == "follows-redirects" || bug == "reads-endlessly" {
		return &http.Client{Timeout: time.Minute}
	}
	return sdk.NewHTTPClient(time.Minute)
}()

// waits refuses the calls of a credential until its Retry-After is over.
var waits = sdk.NewWaits(nil)

type provider struct{ connection sdk.Connection }

type answerDoc struct {
	Zones []zoneDoc `json:"zones"`
}

var errConflict = errors.New("the zone has a different version")

// call makes one request. With the bug "retries-writes", it repeats a failed write.
func (p provider) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if bug == "ignores-deadlines" {
		ctx = context.WithoutCancel(ctx)
	}
	request, err := http.NewRequestWithContext(ctx, method, p.connection.Settings["api_url"]+path, bytes.NewReader(body))
	if err != nil {
		return sdk.Misconfigured("api_url", "it is not a URL")
	}
	secret := p.connection.Secrets[tokenField].Reveal()
	request.Header.Set("Authorization", "Bearer "+secret)
	if bug == "sends-any-workspace" {
		request.Header.Set("X-Workspace", p.connection.Settings["workspace_id"])
	}
	if bug == "logs-the-token" {
		fmt.Fprintln(os.Stderr, "calling with", secret)
	}
	if err := waits.Check(ctx, p.connection.Fingerprint()); err != nil && bug != "ignores-retry-after" {
		return err
	}
	response, err := client.Do(request)
	switch {
	case err != nil && bug == "retries-writes" && method == http.MethodPut && ctx.Err() == nil:
		retry := request.Clone(ctx)
		retry.Body, _ = request.GetBody()
		if response, err = client.Do(retry); err != nil {
			return sdk.TransportError(err)
		}
	case err != nil && bug == "unreachable-is-unknown":
		return sdk.UnknownEffect("unreachable")
	case err != nil && bug == "lost-is-down" && method == http.MethodPut:
		return &sdk.Outcome{Kind: sdk.Down, Detail: "the provider cannot be reached", Cause: "cut"}
	case err != nil:
		return sdk.TransportError(err)
	}
	defer func() { _ = response.Body.Close() }()
	waits.Observe(ctx, p.connection.Fingerprint(), response.StatusCode, response.Header)
	if err := p.statusError(response, method, secret); err != nil {
		return err
	}
	answer, err := p.readBody(response)
	switch {
	case err != nil:
		return err
	case bug == "html-is-fine", bug == "html-of-a-write-is-fine" && method == http.MethodPut:
		_ = json.Unmarshal(answer, out)
		return nil
	case bug == "panics" && json.Unmarshal(answer, out) != nil:
		panic("not JSON")
	case json.Unmarshal(answer, out) != nil:
		return sdk.BrokenAnswer("not_json")
	}
	return nil
}

func (p provider) readBody(response *http.Response) ([]byte, error) {
	if bug == "reads-endlessly" {
		_, _ = io.CopyN(io.Discard, response.Body, 8<<20)
		return nil, &sdk.Outcome{Kind: sdk.Down, Detail: "gave up", Cause: "long"}
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, sdk.TransportError(err)
	}
	return answer, nil
}

func (p provider) statusError(r *http.Response, method, secret string) error {
	switch {
	case r.StatusCode == http.StatusConflict:
		return errConflict
	case r.StatusCode == http.StatusUnauthorized && bug == "rejected-is-broken":
		return sdk.BrokenAnswer("status 401")
	case r.StatusCode == http.StatusUnauthorized && bug == "quotes-the-token":
		var refused *sdk.Outcome
		_ = errors.As(sdk.CredentialRefused("401"), &refused)
		refused.Detail = "the token " + secret + " is unknown"
		return refused
	case r.StatusCode == http.StatusUnauthorized:
		return sdk.CredentialRefused("401")
	case r.StatusCode == http.StatusInternalServerError && bug == "500-is-refused":
		return sdk.RequestRefused("status 500")
	case r.StatusCode == http.StatusInternalServerError && bug == "500-of-a-write-is-down" && method == http.MethodPut:
		return &sdk.Outcome{Kind: sdk.Down, Detail: "out of service", Cause: "status 500"}
	case r.StatusCode == http.StatusServiceUnavailable && bug == "503-is-broken":
		return sdk.BrokenAnswer("status 503")
	case r.StatusCode == http.StatusGatewayTimeout && bug == "504-is-down":
		return &sdk.Outcome{Kind: sdk.Down, Detail: "out of service", Cause: "status 504"}
	case r.StatusCode == http.StatusTooManyRequests && bug == "drops-retry-after":
		return &sdk.Outcome{Kind: sdk.Throttled, Detail: "too many", Cause: "status 429"}
	case r.StatusCode >= 300 && sdk.StatusError(r.StatusCode, r.Header, time.Now()) == nil:
		return sdk.BrokenAnswer("status")
	}
	return sdk.StatusError(r.StatusCode, r.Header, time.Now())
}

func (p provider) Check(ctx context.Context) (int, error) {
	var answer answerDoc
	if err := p.call(ctx, http.MethodGet, "/zones", nil, &answer); err != nil {
		return 0, err
	}
	if bug == "counts-one" {
		return 1, nil
	}
	return len(answer.Zones), nil
}

func (p provider) Zone(ctx context.Context, name string) (dns.Zone, error) {
	z, err := p.page(ctx, name, 0)
	if _, parentName, found := strings.Cut(name, "."); dns.IsNoZone(err) && found && bug == "finds-the-zone-above" {
		z, err = p.page(ctx, parentName, 0)
	}
	switch {
	case dns.IsNoZone(err) && bug == "no-zone-is-refused":
		return dns.Zone{}, sdk.RequestRefused("no_zone")
	case err != nil:
		return dns.Zone{}, err
	}
	zone := dns.Zone{ID: z.Name, Name: z.Name, NameServers: z.NameServers}
	if bug == "no-name-servers" {
		zone.NameServers = nil
	}
	return zone, nil
}

// page returns a zone with one page of its records.
func (p provider) page(ctx context.Context, name string, page int) (zoneDoc, error) {
	var answer answerDoc
	if err := p.call(ctx, http.MethodGet, fmt.Sprintf("/zones?name=%s&page=%d", name, page), nil, &answer); err != nil {
		return zoneDoc{}, err
	}
	if len(answer.Zones) == 0 {
		return zoneDoc{}, dns.NoZoneError()
	}
	return answer.Zones[0], nil
}

func (p provider) zone(ctx context.Context, name string) (zoneDoc, error) {
	z, err := p.page(ctx, name, 0)
	for n := 1; err == nil && z.More && bug != "reads-one-page" && bug != "reads-one-large-page"; n++ {
		var next zoneDoc
		if next, err = p.page(ctx, name, n); err == nil && bug != "repeats-the-first-page" {
			z.Records = append(z.Records, next.Records...)
		}
		z.More = next.More
	}
	return z, err
}

func (p provider) Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error) {
	z, err := p.zone(ctx, zone.ID)
	if err != nil {
		return nil, err
	}
	return z.sets(), nil
}

func (z zoneDoc) sets() (sets []dns.RRSet) {
	for _, r := range z.Records {
		value := r.Content
		switch {
		case r.Priority != nil:
			value = fmt.Sprint(*r.Priority, " ", value)
		case r.Type == "TXT" && bug == "quotes-texts":
			value = sdk.QuoteText(value)
		case r.Type == "TXT" && bug == "cuts-texts":
			value = value[:min(len(value), 255)]
		case strings.HasPrefix(r.Name, "*.") && bug == "expands-wildcards":
			sets = append(sets, dns.RRSet{Name: "_dmarc." + z.Name, Type: dns.Type(r.Type), TTL: r.TTL, Values: []string{value}})
		}
		i := slices.IndexFunc(sets, func(s dns.RRSet) bool { return s.Name == r.Name && string(s.Type) == r.Type })
		if i < 0 {
			sets = append(sets, dns.RRSet{Name: r.Name, Type: dns.Type(r.Type), TTL: r.TTL})
			i = len(sets) - 1
		}
		sets[i].Values = append(sets[i].Values, value)
	}
	return sets
}

// writers makes sure that the bugs "no-condition" and "conflict-is-broken" have an effect: all four
// concurrent writers read the zone before one of them writes.
var writers struct {
	sync.Mutex
	count   int
	allRead chan struct{}
}

func init() { writers.allRead = make(chan struct{}) }

func (p provider) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	if bug == "finishes-cancelled-writes" {
		ctx = context.WithoutCancel(ctx)
	}
	if err := dns.CheckChanges(zone.Name, changes); err != nil && bug != "writes-outside-the-zone" {
		return nil, err
	}
	stored, err := p.zone(ctx, zone.ID)
	if err != nil {
		return nil, err
	}
	if bug == "needs-changes" && len(changes) == 0 {
		return nil, sdk.RequestRefused("empty")
	}
	outstanding, err := dns.Outstanding(stored.sets(), changes)
	if bug == "refuses-what-exists" && len(outstanding) < len(changes) {
		return nil, dns.ChangedError()
	}
	if bug == "overwrites" || bug == "writes-outside-the-zone" {
		outstanding, err = changes, nil
	}
	if err != nil {
		return nil, err
	}
	if bug == "no-condition" || bug == "conflict-is-broken" { // see writers
		writers.Lock()
		if writers.count++; writers.count == 4 {
			close(writers.allRead)
		}
		writers.Unlock()
		<-writers.allRead
	}
	if len(outstanding) == 0 {
		return sdk.SetsAfter(stored.sets(), changes), nil
	}
	if bug == "writes-nothing" {
		return sdk.SetsAfter(nil, changes), nil
	}
	path := "/zones/" + zone.ID
	if bug == "no-condition" || bug == "overwrites" {
		path += "?force"
	}
	stored.edit(outstanding)
	switch err := p.call(ctx, http.MethodPut, path, stored, &struct{}{}); {
	case errors.Is(err, errConflict) && bug == "conflict-is-broken":
		return nil, sdk.BrokenAnswer("status 409")
	case errors.Is(err, errConflict):
		return nil, dns.ChangedError()
	case err != nil:
		return nil, err
	}
	return sdk.SetsAfter(stored.sets(), changes), nil
}

// edit applies the changes to the records of the document, with the planted bugs.
func (z *zoneDoc) edit(changes []dns.Change) {
	if bug == "drops-foreign-records" {
		z.Records = nil
	}
	for _, change := range changes {
		ttl := change.After.TTL
		z.Records = slices.DeleteFunc(z.Records, func(r recordDoc) bool {
			inSet := r.Name == change.After.Name && r.Type == string(change.After.Type)
			if inSet && bug == "changes-the-ttl" {
				ttl = 60
			}
			return inSet && bug != "never-removes"
		})
		for _, value := range change.After.Values {
			r := recordDoc{Type: string(change.After.Type), Name: change.After.Name, Content: value, TTL: ttl}
			if change.After.Type == dns.MX {
				r.Priority = new(int)
				_, _ = fmt.Sscan(value, r.Priority, &r.Content)
			}
			z.Records = append(z.Records, r)
		}
	}
}
