// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tenantry/tenantry/app/tenants"
)

const (
	// flowTimeout limits the whole connect flow, with all its pages.
	flowTimeout = 2 * time.Minute
	// maxFlowPages ends a flow that would never end. It is larger than the number of pages of any
	// flow.
	maxFlowPages = 12
)

// consent acts as the administrator of a tenant. It opens the connect link of an account, and
// accepts on each page. The API key in the request selects the account.
func (c *controller) consent(r *http.Request) (any, error) {
	var in struct {
		APIKey string `json:"api_key"`
	}
	if err := decodeBody(r, &in); err != nil {
		return nil, err
	}
	if in.APIKey == "" {
		return nil, badRequest("api_key is missing")
	}
	tenant, ok := c.tenants.find(r.PathValue("id"))
	if !ok {
		return nil, notFound("there is no such tenant")
	}
	ctx, cancel := context.WithTimeout(r.Context(), flowTimeout)
	defer cancel()
	b, err := newBrowser()
	if err != nil {
		return nil, err
	}
	link, err := c.connectLink(ctx, b, in.APIKey)
	if err != nil {
		return nil, err
	}
	page, err := b.get(ctx, link)
	if err != nil {
		return nil, err
	}
	return emptyResponse{}, b.connect(ctx, page, tenant.Admin)
}

// connect submits page after page until the tenant is connected. It returns a failedFlow after
// maxFlowPages pages, or if a page has a status other than 200 or unexpectedly has no form.
func (b *browser) connect(ctx context.Context, current page, username string) error {
	hasConfirmed := false
	for range maxFlowPages {
		switch {
		case current.status == http.StatusOK && current.form == nil && hasConfirmed:
			return nil
		case current.status != http.StatusOK || current.form == nil:
			return failedFlow{current.heading, current.status}
		}
		hasConfirmed = current.form.fillIn(username) == "connect"
		var err error
		if current, err = b.submit(ctx, current.form); err != nil {
			return err
		}
	}
	return failedFlow{"the connect flow did not end after the maximum number of pages", current.status}
}

// connectLink asks the API of the service for the account's connect link.
func (c *controller) connectLink(ctx context.Context, b *browser, key string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.APIURL+"/v1/tenants/connect-url", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := b.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask for the connect link: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		URL    string `json:"connect_url"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("connect link: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", failedFlow{"connect-url: " + answer.Code + ": " + answer.Detail, resp.StatusCode}
	}
	return answer.URL, nil
}

// consentManaged acts as a tenant's administrator who approves the application. It does not connect
// the tenant to an account.
func (c *controller) consentManaged(ctx context.Context, id string) error {
	tenant, ok := c.tenants.find(id)
	if !ok {
		return notFound("there is no such tenant")
	}
	link, err := c.Consent.ConsentURL(ctx, "managed", tenants.RedirectURIs(c.APIURL, c.options.MailPlatform)[0])
	if err != nil {
		return fmt.Errorf("consent of a managed tenant: %w", err)
	}
	b, err := newBrowser()
	if err != nil {
		return err
	}
	// The browser does not follow the platform's redirect to the service, because the service did
	// not begin this flow.
	b.client.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(req.URL.String(), c.APIURL+"/") {
			return http.ErrUseLastResponse
		}
		return nil
	}
	p, err := b.get(ctx, link)
	for range maxFlowPages {
		if err != nil || p.form == nil {
			return err
		}
		p.form.fillIn(tenant.Admin)
		if p, err = b.submit(ctx, p.form); err == nil && p.status >= http.StatusBadRequest {
			err = errors.New("the platform refused the administrator's consent")
		}
	}
	return errors.New("the consent flow did not end after the maximum number of pages")
}
