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

// writable are the services that may be written back; others that a domain
// shows are not ours to send.
var writable = []string{emailService, "OfficeCommunicationsOnline", "Yammer"}

func (d graphDomain) mail() bool {
	return slices.ContainsFunc(d.Services, func(s string) bool { return equalFold(s, emailService) })
}

func (d graphDomain) platform(name string) domain.Platform {
	return domain.Platform{Name: name, Verified: d.Verified, Default: d.Default, MailEnabled: d.mail()}
}

func domainPath(name string) graph.Path { return graph.At("/domains/%s", name) }

// Domains implements sdk.MailTenant.
func (c *client) Domains(ctx context.Context) ([]domain.Platform, error) {
	all, err := graph.List[graphDomain](ctx, c.graph, graph.Plain("/domains"), "")
	if err != nil {
		return nil, err
	}
	var out []domain.Platform
	for _, d := range all {
		if d.ID != "" && !d.Initial && !builtin(d.ID) {
			out = append(out, d.platform(strings.ToLower(d.ID)))
		}
	}
	return out, nil
}

// Domain implements sdk.MailTenant.
func (c *client) Domain(ctx context.Context, name string) (domain.Platform, error) {
	d, err := c.domain(ctx, name)
	return d.platform(name), err
}

func (c *client) domain(ctx context.Context, name string) (graphDomain, error) {
	d, err := graph.Get[graphDomain](ctx, c.graph, domainPath(name), "")
	switch {
	case graph.Status(err) == http.StatusNotFound, err == nil && (d.Initial || builtin(name)):
		return graphDomain{}, call.Refuse(fault.DomainNotFound, "the tenant holds no such domain")
	case err != nil:
		return graphDomain{}, err
	}
	return d, nil
}

// AddDomain implements sdk.MailTenant. It returns when the directory shows the
// domain, or after some seconds: what callers do next is read.
func (c *client) AddDomain(ctx context.Context, name string) (domain.Platform, error) {
	if builtin(name) {
		return domain.Platform{}, call.Refuse(fault.InvalidDomain, "the name belongs to the mail platform")
	}
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	look := func() (graphDomain, error) { return c.domain(ctx, name) }
	d, err := create(ctx, c.platform.house.patience, look,
		func() (graphDomain, error) {
			return graph.Write[graphDomain](ctx, c.graph, call.Create, http.MethodPost, graph.Plain("/domains"), map[string]string{"id": name})
		},
		conflicts, refusedDomain)
	if err != nil {
		return domain.Platform{}, err
	}
	if shown, err := lookAgain(ctx, c.platform.house.patience, patientLooks, look); err == nil {
		d = shown
	}
	return d.platform(name), nil
}

// conflictWords tell that a domain or object is taken, in lower case. Graph
// gives a bad name and a taken one the same code.
var conflictWords = []string{"conflict", "already", "in use", "another", "other organi", "exists"}

// conflicts reports whether Graph says that there is such a thing already.
func conflicts(err error) bool {
	status := graph.Status(err)
	return status == http.StatusConflict || status == http.StatusBadRequest && graph.Says(err, conflictWords...)
}

// refusedDomain reads a refusal to add a domain that the tenant does not hold.
func refusedDomain(err error) error {
	switch {
	case conflicts(err):
		return call.Refuse(fault.DomainUnavailable, "the domain belongs to another tenant", call.CauseOf(err))
	case graph.Status(err) == http.StatusBadRequest:
		return call.Refuse(fault.InvalidDomain, "the mail platform does not take this name", call.CauseOf(err))
	default:
		return err
	}
}

// VerifyDomain implements sdk.MailTenant.
func (c *client) VerifyDomain(ctx context.Context, name string) (domain.Platform, error) {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	d, err := afterLag(ctx, c, func() (graphDomain, error) {
		path := graph.At("/domains/%s/verify", name)
		return graph.Write[graphDomain](ctx, c.graph, call.Repeatable, http.MethodPost, path, nil)
	})
	switch {
	case graph.Status(err) == http.StatusNotFound:
		return domain.Platform{}, call.Refuse(fault.DomainNotFound, "the tenant holds no such domain")
	case err == nil && d.Verified:
		return d.platform(name), nil
	case err != nil && graph.Status(err) == 0 && outcome.Settled(err):
		return domain.Platform{}, err
	}
	// Refused, or without an answer: a domain that is verified says so itself.
	read, readErr := c.domain(ctx, name)
	switch {
	case readErr == nil && read.Verified:
		return read.platform(name), nil
	case err != nil:
		return domain.Platform{}, refusedVerification(err)
	case readErr != nil:
		return domain.Platform{}, readErr
	default:
		return domain.Platform{}, call.NotReady("the mail platform has not finished the verification")
	}
}

// refusedVerification reads a refusal to verify a domain that is not verified
// here.
func refusedVerification(err error) error {
	switch status := graph.Status(err); {
	case status == http.StatusConflict, status == http.StatusBadRequest && graph.Says(err, takenWords...):
		return call.Refuse(fault.DomainUnavailable, "the domain belongs to another tenant", call.CauseOf(err))
	case status == http.StatusBadRequest:
		return call.Refuse(fault.VerificationFailed, "the mail platform does not see the verification record yet", call.CauseOf(err))
	default:
		return err
	}
}

// takenWords tell that another tenant has verified the domain, in lower case.
var takenWords = []string{"already verified", "already been verified", "already in use", "already used", "already exists",
	"in use by", "another ", "other organi", "other tenant", "different ", "conflicting object"}

// EnableMail implements sdk.MailTenant. It keeps the services that are on. A
// verified domain may list the service already; only writing it makes the
// mail server accept the domain, so it is always written.
func (c *client) EnableMail(ctx context.Context, name string) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	d, err := c.domain(ctx, name)
	if err != nil {
		return err
	}
	services := []string{emailService}
	for _, s := range d.Services {
		if s != emailService && slices.Contains(writable, s) {
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
