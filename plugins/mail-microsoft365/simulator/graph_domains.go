// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"slices"
	"strings"
)

// mailDomain is a domain of a tenant. The tenant stores only its custom domains, because
// initialMailDomain derives the initial domain.
type mailDomain struct {
	Name          string   `json:"name"`
	Verified      bool     `json:"verified"`
	Root          bool     `json:"root"`
	Default       bool     `json:"default"`
	Services      []string `json:"services"`
	VisibilityLag lag      `json:"visible"`  // until GET finds the domain
	AcceptanceLag lag      `json:"accepted"` // from the enabling of Email until Exchange accepts mail
	// NegativeCacheLag is the time for which the resolvers cache that the verification record is
	// missing.
	NegativeCacheLag lag `json:"denied"`
}

func (d *mailDomain) isEmailEnabled() bool { return slices.Contains(d.Services, "Email") }

// domain returns the custom domain of this name, or nil.
func (t *tenant) domain(name string) *mailDomain {
	for i := range t.Domains {
		if strings.EqualFold(t.Domains[i].Name, name) {
			return &t.Domains[i]
		}
	}
	return nil
}

func domainObject(d mailDomain, availability any) object {
	services := d.Services
	if services == nil {
		services = []string{}
	}
	return object{
		"id": d.Name, "authenticationType": "Managed", "availabilityStatus": availability,
		"isAdminManaged": true, "isDefault": d.Default, "isInitial": strings.HasSuffix(d.Name, ".onmicrosoft.com"),
		"isRoot": d.Root, "isVerified": d.Verified, "manufacturer": nil, "model": nil,
		"passwordNotificationWindowInDays": nil, "passwordValidityPeriodInDays": nil, "state": nil,
		"supportedServices": services,
	}
}

// initialMailDomain returns the initial domain. It is the default domain if no custom domain is the
// default domain.
func (t *tenant) initialMailDomain() mailDomain {
	hasCustomDefault := slices.ContainsFunc(t.Domains, func(d mailDomain) bool { return d.Default })
	return mailDomain{Name: t.initialDomain(), Verified: true, Root: true, Default: !hasCustomDefault,
		Services: []string{"Email", "OfficeCommunicationsOnline"}}
}

func listDomains(c *graphCall, t *tenant) result {
	if c.r.URL.Query().Has("$filter") { // the plugin reads all domains, so the simulator refuses filters
		return errorResult(errFilter.with("$filter"))
	}
	objects := []object{domainObject(t.initialMailDomain(), nil)}
	for _, d := range t.Domains {
		if d.VisibilityLag.hasPassed(c.now) {
			objects = append(objects, domainObject(d, nil))
		}
	}
	return c.collection("domains", objects)
}

// visibleDomain returns the domain in the path. It does not find a domain whose VisibilityLag has
// not passed.
func (c *graphCall) visibleDomain(t *tenant) (mailDomain, *graphError) {
	name := c.r.PathValue("id")
	if strings.EqualFold(name, t.initialDomain()) {
		return t.initialMailDomain(), nil
	}
	d := t.domain(name)
	if d == nil || !d.VisibilityLag.hasPassed(c.now) {
		return mailDomain{}, errNotFound.with(name)
	}
	return *d, nil
}

func getDomain(c *graphCall, t *tenant) result {
	d, refusal := c.visibleDomain(t)
	if refusal != nil {
		return errorResult(refusal)
	}
	return c.entity(http.StatusOK, "domains", domainObject(d, nil))
}

// createDomain answers POST /domains. By default a domain that another tenant has verified can be
// added, and only its verification fails.
func createDomain(call *graphCall) result {
	body, refusal := call.readBody()
	if refusal == nil {
		refusal = rejectUnknown(body, "id")
	}
	if refusal != nil {
		return errorResult(refusal)
	}
	name, _ := body["id"].(string)
	name = strings.ToLower(name)
	if !domainPattern.MatchString(name) || len(name) > 253 || strings.HasSuffix(name, ".onmicrosoft.com") {
		return errorResult(errValues.with(""))
	}
	isVerifiedElsewhere := call.isVerifiedInOtherTenant(name)
	return withTenant(func(call *graphCall, t *tenant) result {
		switch {
		case t.domain(name) != nil && t.Behaviour.DomainConflict == http.StatusConflict:
			return errorResult(errSameKey.with(""))
		case t.domain(name) != nil:
			return errorResult(errConflict.with(""))
		case t.Behaviour.ElsewhereAt == "add" && (isVerifiedElsewhere || t.isVerifiedOutsideSimulator(name)):
			return errorResult(errConflict.with(""))
		}
		d := mailDomain{Name: name, VisibilityLag: startLag(call.now, t.Behaviour.DomainMS), Verified: t.hasVerifiedParent(name)}
		t.Domains = append(t.Domains, d)
		return call.entity(http.StatusCreated, "domains", domainObject(d, nil))
	})(call)
}

// isVerifiedInOtherTenant reports whether another tenant has verified a domain. It locks tenants,
// including the caller's own, so the caller must not hold the lock of any tenant.
func (c *graphCall) isVerifiedInOtherTenant(name string) bool {
	owner := c.s.store.tenantWithDomain(name)
	return owner != nil && owner != c.file
}

// isVerifiedOutsideSimulator reports whether the setting Elsewhere lists the domain.
func (t *tenant) isVerifiedOutsideSimulator(name string) bool {
	return slices.ContainsFunc(t.Behaviour.Elsewhere, func(d string) bool { return strings.EqualFold(d, name) })
}

// hasVerifiedParent reports whether a name is below a verified custom domain of the tenant. Such a
// subdomain is verified from the start.
func (t *tenant) hasVerifiedParent(name string) bool {
	return slices.ContainsFunc(t.Domains, func(d mailDomain) bool {
		return d.Verified && strings.HasSuffix(name, "."+d.Name)
	})
}

// updateDomain answers PATCH /domains/{fqdn}. It sets the services, and can make the domain the
// default domain. It refuses domains that are not verified.
func updateDomain(c *graphCall, t *tenant) result {
	body, refusal := c.readBody()
	if refusal == nil {
		refusal = rejectUnknown(body, "isDefault", "supportedServices")
	}
	if refusal != nil {
		return errorResult(refusal)
	}
	found := t.domain(c.r.PathValue("id"))
	if found == nil {
		return errorResult(errNotFound.with(c.r.PathValue("id")))
	}
	if !found.Verified {
		return errorResult(errUnverified.with(found.Name))
	}
	services, isSet := body["supportedServices"]
	if isSet && !found.setServices(services, c, t) {
		return errorResult(errValues.with(""))
	}
	if v, isSet := body["isDefault"]; isSet {
		if v != true { // a default domain loses this property only when a different domain becomes the default
			return errorResult(errValues.with(""))
		}
		for i := range t.Domains {
			t.Domains[i].Default = &t.Domains[i] == found
		}
	}
	return result{status: http.StatusNoContent}
}

// setServices changes the services of a domain and reports whether the value is valid.
func (d *mailDomain) setServices(v any, c *graphCall, t *tenant) bool {
	writable := []string{"Email", "OfficeCommunicationsOnline", "Yammer"}
	list, ok := v.([]any)
	if !ok {
		return false
	}
	services := stringList(list)
	if len(services) != len(list) || slices.ContainsFunc(services, func(n string) bool { return !slices.Contains(writable, n) }) {
		return false
	}
	wasEnabled := d.isEmailEnabled()
	d.Services = services
	if d.isEmailEnabled() && !wasEnabled {
		d.AcceptanceLag = startLag(c.now, t.Behaviour.AcceptedDomainMS)
		if t.Behaviour.DKIMListed && t.dkimConfig(d.Name) == nil {
			t.Exchange.DKIM = append(t.Exchange.DKIM, dkimConfig{Domain: d.Name})
		}
	}
	return true
}

// usersOfDomain returns references to the users whose sign-in name or address is in the domain.
func (t *tenant) usersOfDomain(name string) []object {
	found := []object{}
	for _, u := range t.Users {
		if strings.HasSuffix(strings.ToLower(u.UPN), "@"+name) || strings.HasSuffix(strings.ToLower(u.Mail), "@"+name) {
			found = append(found, object{"@odata.type": "#microsoft.graph.user", "id": u.ID})
		}
	}
	return found
}

func listDomainReferences(c *graphCall, t *tenant) result {
	d, refusal := c.visibleDomain(t)
	if refusal != nil {
		return errorResult(refusal)
	}
	return c.collection("directoryObjects", t.usersOfDomain(d.Name))
}

// deleteDomain answers DELETE /domains/{fqdn}. It refuses the initial domain, the default domain,
// and a domain in the sign-in name or the address of a user.
func deleteDomain(c *graphCall, t *tenant) result {
	name := strings.ToLower(c.r.PathValue("id"))
	d := t.domain(name)
	switch {
	case name == t.initialDomain() || d != nil && d.Default:
		return errorResult(errInitialOrDefault.with(name))
	case d == nil:
		return errorResult(errNotFound.with(name))
	case len(t.usersOfDomain(name)) > 0:
		return errorResult(errReferenced.with(name))
	}
	t.removeDomain(name)
	return result{status: http.StatusNoContent}
}

func (t *tenant) removeDomain(name string) {
	t.Domains = slices.DeleteFunc(t.Domains, func(d mailDomain) bool { return d.Name == name })
	t.Exchange.DKIM = slices.DeleteFunc(t.Exchange.DKIM, func(c dkimConfig) bool { return c.Domain == name })
}

// forceDeleteDomain answers POST /domains/{fqdn}/forceDelete. It moves the sign-in names in the
// domain to the initial domain, and then deletes the domain. If the body sets disableUserAccounts,
// it also disables the users whose names it moves. It refuses the default domain.
func forceDeleteDomain(c *graphCall, t *tenant) result {
	name := strings.ToLower(c.r.PathValue("id"))
	d := t.domain(name)
	if d == nil {
		return errorResult(errNotFound.with(name))
	}
	if d.Default {
		return errorResult(errInitialOrDefault.with(name))
	}
	body, _ := c.readBody() // the body is optional
	for i := range t.Users {
		u := &t.Users[i]
		if local, ok := strings.CutSuffix(strings.ToLower(u.UPN), "@"+name); ok {
			u.UPN = local + "@" + t.initialDomain()
			u.Enabled = u.Enabled && body["disableUserAccounts"] != true
		}
	}
	t.removeDomain(name)
	return result{status: http.StatusAccepted}
}
