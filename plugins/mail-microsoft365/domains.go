// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
)

type graphDomain struct {
	ID       string   `json:"id"`
	Verified bool     `json:"isVerified"`
	Default  bool     `json:"isDefault"`
	Initial  bool     `json:"isInitial"`
	Services []string `json:"supportedServices"`
}

const emailService = "Email"

// writableServices are the services that EnableMail may write back. Graph also lists services that
// an application must not set.
var writableServices = []string{emailService, "OfficeCommunicationsOnline", "Yammer"}

func (d graphDomain) isMailEnabled() bool {
	return slices.ContainsFunc(d.Services, func(s string) bool { return strings.EqualFold(s, emailService) })
}

func (d graphDomain) toDomain(name string) domain.Platform {
	return domain.Platform{Name: name, Verified: d.Verified, Default: d.Default, MailEnabled: d.isMailEnabled()}
}

func domainPath(name string) graph.Path { return graph.PathWith("/domains/%s", name) }

// Domains implements sdk.MailTenant.
func (c *tenantClient) Domains(ctx context.Context) ([]domain.Platform, error) {
	graphDomains, err := graph.List[graphDomain](ctx, c.graph, graph.StaticPath("/domains"), "")
	if err != nil {
		return nil, err
	}
	var domains []domain.Platform
	for _, d := range graphDomains {
		if d.ID != "" && !d.Initial && !hasBuiltinSuffix(d.ID) {
			domains = append(domains, d.toDomain(strings.ToLower(d.ID)))
		}
	}
	return domains, nil
}

// Domain implements sdk.MailTenant.
func (c *tenantClient) Domain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := c.domain(ctx, name)
	return d.toDomain(name), err
}

func (c *tenantClient) domain(ctx context.Context, name string) (graphDomain, error) {
	d, err := graph.Get[graphDomain](ctx, c.graph, domainPath(name), "")
	switch {
	case graph.Status(err) == http.StatusNotFound, err == nil && (d.Initial || hasBuiltinSuffix(name)):
		return graphDomain{}, call.Refuse(fault.DomainNotFound, "the tenant holds no such domain")
	case err != nil:
		return graphDomain{}, err
	}
	return d, nil
}

// AddDomain implements sdk.MailTenant. Callers read the domain next, so AddDomain waits until the
// directory shows the domain, but only for some seconds.
func (c *tenantClient) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	if hasBuiltinSuffix(name) {
		return domain.Platform{}, call.Refuse(fault.InvalidDomain, "the name belongs to the mail platform")
	}
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	find := func() (graphDomain, error) { return c.domain(ctx, name) }
	d, err := createOnce(ctx, c.platform.state.retry, find,
		func() (graphDomain, error) {
			return graph.Write[graphDomain](ctx, c.graph, call.Create, http.MethodPost, graph.StaticPath("/domains"), map[string]string{"id": name})
		},
		isConflict, addDomainError)
	if err != nil {
		return domain.Platform{}, err
	}
	if found, err := findAgain(ctx, c.platform.state.retry, newObjectLookups, find); err == nil {
		d = found
	}
	return d.toDomain(name), nil
}

// isConflict reports whether err can mean that the object already exists.
func isConflict(err error) bool {
	return graph.Status(err) == http.StatusConflict || graph.ObjectExists(err)
}

// addDomainError converts Graph's refusal to add a domain that the tenant does not have. It returns
// other errors unchanged.
func addDomainError(err error) error {
	switch {
	case graph.ObjectExists(err), namesOtherTenant(err):
		return call.Refuse(fault.DomainUnavailable, "the domain belongs to another tenant", call.CauseOf(err))
	case graph.LostRace(err):
		return lostRaceOutcome(err)
	case graph.Status(err) == http.StatusBadRequest && graph.MessageContains(err, "invalid value", "is invalid", "not valid"):
		return call.Refuse(fault.InvalidDomain, "the mail platform does not accept this name", call.CauseOf(err))
	default:
		return err
	}
}

// namesOtherTenant reports whether the text of a refusal says that another tenant has the domain.
// Graph has no error code for this case.
func namesOtherTenant(err error) bool {
	return graph.Status(err) == http.StatusBadRequest &&
		graph.MessageContains(err, "other organi", "different organi", "other tenant", "different tenant")
}

// lostRaceOutcome returns the NotReady outcome for an error for which graph.LostRace is true.
func lostRaceOutcome(err error) error {
	return call.NotReady("a concurrent change at the mail platform prevented this one", call.CauseOf(err))
}

// VerifyDomain implements sdk.MailTenant.
func (c *tenantClient) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	d, err := retryNotFound(ctx, c, func() (graphDomain, error) {
		path := graph.PathWith("/domains/%s/verify", name)
		return graph.Write[graphDomain](ctx, c.graph, call.Repeatable, http.MethodPost, path, nil)
	})
	switch {
	case graph.Status(err) == http.StatusNotFound:
		return domain.Platform{}, call.Refuse(fault.DomainNotFound, "the tenant holds no such domain")
	case err == nil && d.Verified:
		return d.toDomain(name), nil
	case err != nil && graph.Status(err) == 0 && outcome.ChangedNothing(err):
		return domain.Platform{}, err
	}
	// The domain may be verified, even if the request failed or returned an unverified domain.
	current, readErr := c.domain(ctx, name)
	switch {
	case readErr == nil && current.Verified:
		return current.toDomain(name), nil
	case err != nil:
		return domain.Platform{}, verificationError(err)
	case readErr != nil:
		return domain.Platform{}, readErr
	default:
		return domain.Platform{}, call.NotReady("the mail platform has not finished the verification")
	}
}

// verificationError converts Graph's refusal to verify a domain. It returns other errors unchanged.
func verificationError(err error) error {
	switch {
	case graph.ObjectExists(err), namesOtherTenant(err):
		return call.Refuse(fault.DomainUnavailable, "the domain belongs to another tenant", call.CauseOf(err))
	case graph.LostRace(err):
		return lostRaceOutcome(err)
	case graph.Status(err) == http.StatusBadRequest && graph.IsUnreadable(err):
		return call.Broken(call.CauseOf(err))
	case graph.Status(err) == http.StatusBadRequest && graph.MessageContains(err, "already verified"):
		// Graph gives this answer if this tenant has verified the domain but a replica does not
		// show that yet.
		return call.NotReady("the mail platform does not show the verification yet", call.CauseOf(err))
	case graph.Status(err) == http.StatusBadRequest:
		return call.Refuse(fault.VerificationFailed, "the mail platform does not see the verification record yet", call.CauseOf(err))
	default:
		return err
	}
}

// RemoveDomain implements sdk.MailTenant. Graph uses the same code for most refusals, so
// RemoveDomain finds the reason of a refusal in the state of the domain.
func (c *tenantClient) RemoveDomain(ctx context.Context, name string) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	_, err := graph.Write[struct{}](ctx, c.graph, call.Repeatable, http.MethodDelete, domainPath(name), nil)
	switch {
	case graph.Status(err) == http.StatusNotFound:
		return nil
	case graph.LostRace(err):
		return lostRaceOutcome(err)
	case graph.Status(err) == http.StatusBadRequest || graph.Status(err) == http.StatusConflict:
		return c.removalError(ctx, name, err)
	default:
		return err
	}
}

// removalError converts Graph's refusal to remove a domain. If it does not find the reason, it
// returns the refusal unchanged.
func (c *tenantClient) removalError(ctx context.Context, name string, refusal error) error {
	d, err := c.domain(ctx, name)
	if err != nil {
		return refusal
	}
	if d.Default {
		return call.Refuse(fault.DomainInUse, "it is the default domain of the tenant", call.CauseOf(refusal))
	}
	references, err := graph.List[struct{}](ctx, c.graph, graph.PathWith("/domains/%s/domainNameReferences", name), "")
	if err == nil && len(references) > 0 {
		return call.Refuse(fault.DomainInUse, "objects of the tenant use the domain", call.CauseOf(refusal))
	}
	return refusal
}

// EnableMail implements sdk.MailTenant. It keeps the other writable services of the domain. A
// verified domain may already list the service Email, but Exchange accepts the domain only after a
// write. Therefore EnableMail always writes.
func (c *tenantClient) EnableMail(ctx context.Context, name string) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	d, err := c.domain(ctx, name)
	if err != nil {
		return err
	}
	services := []string{emailService}
	for _, s := range d.Services {
		if s != emailService && slices.Contains(writableServices, s) {
			services = append(services, s)
		}
	}
	_, err = graph.Write[struct{}](ctx, c.graph, call.Repeatable, http.MethodPatch, domainPath(name),
		map[string]any{"supportedServices": services})
	if graph.Status(err) == http.StatusBadRequest && !d.Verified {
		return call.Refuse(fault.DomainNotVerified, "the domain is not verified", call.CauseOf(err))
	}
	return err
}

type acceptedDomain struct {
	Name              exchange.Text `json:"DomainName"`
	PendingRemoval    exchange.Bool
	PendingCompletion exchange.Bool
}

// MailDomains implements sdk.MailTenant. The result contains the domains for which Exchange accepts
// mail.
func (c *tenantClient) MailDomains(ctx context.Context) ([]string, error) {
	rows, err := exchange.Invoke[acceptedDomain](ctx, c.exchange, exchange.Command{
		Effect: call.Read, Cmdlet: exchange.GetAcceptedDomain,
		Select: []string{"DomainName", "PendingRemoval", "PendingCompletion"},
	})
	var names []string
	for _, d := range rows {
		if d.Name != "" && !d.PendingRemoval.Value && !d.PendingCompletion.Value {
			names = append(names, strings.ToLower(string(d.Name)))
		}
	}
	return names, err
}
