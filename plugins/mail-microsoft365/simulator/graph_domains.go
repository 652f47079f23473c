// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"slices"
	"strings"
)

// domainObject is a domain as Graph shows it.
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

// builtIn is the initial domain, which nobody added.
func (t *tenant) builtIn() mailDomain {
	custom := slices.ContainsFunc(t.Domains, func(d mailDomain) bool { return d.Default })
	return mailDomain{Name: t.initial(), Verified: true, Root: true, Default: !custom,
		Services: []string{"Email", "OfficeCommunicationsOnline"}}
}

func listDomains(c *graphCall, t *tenant) result {
	if c.r.URL.Query().Has("$filter") { // all the domains are few
		return refuse(errFilter.of("$filter"))
	}
	all := []object{domainObject(t.builtIn(), nil)}
	for _, d := range t.Domains {
		if d.Visible.over(c.now) {
			all = append(all, domainObject(d, nil))
		}
	}
	return c.many("domains", all)
}

// readDomain finds the domain that a GET names. A domain just added is not
// seen by the replica that answers reads.
func (c *graphCall) readDomain(t *tenant) (mailDomain, *graphError) {
	name := c.r.PathValue("id")
	if strings.EqualFold(name, t.initial()) {
		return t.builtIn(), nil
	}
	d := t.domain(name)
	if d == nil || !d.Visible.over(c.now) {
		return mailDomain{}, errNotFound.of(name)
	}
	return *d, nil
}

func getDomain(c *graphCall, t *tenant) result {
	d, refused := c.readDomain(t)
	if refused != nil {
		return refuse(refused)
	}
	return c.one(http.StatusOK, "domains", domainObject(d, nil))
}

// createDomain answers POST /domains. A domain that another tenant has
// verified can usually be added; the refusal comes at verify.
func createDomain(c *graphCall) result {
	in, refused := c.read()
	if refused == nil {
		refused = only(in, "id")
	}
	if refused != nil {
		return refuse(refused)
	}
	name, _ := in["id"].(string)
	name = strings.ToLower(name)
	if !domainForm.MatchString(name) || len(name) > 253 || strings.HasSuffix(name, ".onmicrosoft.com") {
		return refuse(errValues.of(""))
	}
	elsewhere := c.ownedElsewhere(name)
	return locked(func(c *graphCall, t *tenant) result {
		switch {
		case t.domain(name) != nil && t.Behaviour.DomainConflict == http.StatusConflict:
			return refuse(errSameKey.of(""))
		case t.domain(name) != nil:
			return refuse(errConflict.of(""))
		case t.Behaviour.ElsewhereAt == "add" && (elsewhere || t.deniesDomain(name)):
			return refuse(errConflict.of(""))
		}
		d := mailDomain{Name: name, Visible: after(c.now, t.Behaviour.DomainMS), Verified: t.ownsRootOf(name)}
		t.Domains = append(t.Domains, d)
		return c.one(http.StatusCreated, "domains", domainObject(d, nil))
	})(c)
}

// ownedElsewhere reports whether another tenant has verified a domain. It
// looks into the other tenants, so the caller's own must not be locked.
func (c *graphCall) ownedElsewhere(name string) bool {
	owner := c.s.store.owner(name)
	return owner != nil && owner != c.file
}

// deniesDomain is the knob for a domain that somebody outside owns.
func (t *tenant) deniesDomain(name string) bool {
	return slices.ContainsFunc(t.Behaviour.Elsewhere, func(d string) bool { return strings.EqualFold(d, name) })
}

// ownsRootOf reports whether a name lies below a verified domain: such a
// subdomain needs no verification of its own.
func (t *tenant) ownsRootOf(name string) bool {
	return slices.ContainsFunc(t.Domains, func(d mailDomain) bool {
		return d.Verified && strings.HasSuffix(name, "."+d.Name)
	})
}

// updateDomain answers PATCH: the default domain and the services, of verified
// domains only.
func updateDomain(c *graphCall, t *tenant) result {
	in, refused := c.read()
	if refused == nil {
		refused = only(in, "isDefault", "supportedServices")
	}
	if refused != nil {
		return refuse(refused)
	}
	d := t.domain(c.r.PathValue("id"))
	if d == nil {
		return refuse(errNotFound.of(c.r.PathValue("id")))
	}
	if !d.Verified {
		return refuse(errUnverified.of(d.Name))
	}
	services, has := in["supportedServices"]
	if has && !d.setServices(services, c, t) {
		return refuse(errValues.of(""))
	}
	if v, has := in["isDefault"]; has {
		if v != true { // a default is moved by making another one the default
			return refuse(errValues.of(""))
		}
		for i := range t.Domains {
			t.Domains[i].Default = &t.Domains[i] == d
		}
	}
	return result{status: http.StatusNoContent}
}

// setServices changes the services of a domain; Exchange accepts mail for it
// some time after Email is switched on.
func (d *mailDomain) setServices(v any, c *graphCall, t *tenant) bool {
	writable := []string{"Email", "OfficeCommunicationsOnline", "Yammer"}
	list, ok := v.([]any)
	if !ok {
		return false
	}
	services := texts(list)
	if len(services) != len(list) || slices.ContainsFunc(services, func(n string) bool { return !slices.Contains(writable, n) }) {
		return false
	}
	had := d.mail()
	d.Services = services
	if d.mail() && !had {
		d.Accepted = after(c.now, t.Behaviour.AcceptedDomainMS)
		if t.Behaviour.DKIMListed && t.signing(d.Name) == nil {
			t.Exchange.Signing = append(t.Exchange.Signing, dkimConfig{Domain: d.Name})
		}
	}
	return true
}

// references lists the accounts that use a domain.
func (t *tenant) references(name string) []object {
	found := []object{}
	for _, u := range t.Users {
		if strings.HasSuffix(strings.ToLower(u.UPN), "@"+name) || strings.HasSuffix(strings.ToLower(u.Mail), "@"+name) {
			found = append(found, object{"@odata.type": "#microsoft.graph.user", "id": u.ID})
		}
	}
	return found
}

func domainReferences(c *graphCall, t *tenant) result {
	d, refused := c.readDomain(t)
	if refused != nil {
		return refuse(refused)
	}
	return c.many("directoryObjects", t.references(d.Name))
}

func deleteDomain(c *graphCall, t *tenant) result {
	name := strings.ToLower(c.r.PathValue("id"))
	d := t.domain(name)
	switch {
	case name == t.initial() || d != nil && d.Default:
		return refuse(errBuiltIn.of(name))
	case d == nil:
		return refuse(errNotFound.of(name))
	case len(t.references(name)) > 0:
		return refuse(errReferenced.of(name))
	}
	t.drop(name)
	return result{status: http.StatusNoContent}
}

// drop forgets a domain and its DKIM configuration.
func (t *tenant) drop(name string) {
	t.Domains = slices.DeleteFunc(t.Domains, func(d mailDomain) bool { return d.Name == name })
	t.Exchange.Signing = slices.DeleteFunc(t.Exchange.Signing, func(c dkimConfig) bool { return c.Domain == name })
}

// forceDeleteDomain renames what still uses the domain, then deletes it.
func forceDeleteDomain(c *graphCall, t *tenant) result {
	name := strings.ToLower(c.r.PathValue("id"))
	d := t.domain(name)
	if d == nil {
		return refuse(errNotFound.of(name))
	}
	if d.Default {
		return refuse(errBuiltIn.of(name))
	}
	in, _ := c.read() // the body is optional
	for i := range t.Users {
		u := &t.Users[i]
		if local, ok := strings.CutSuffix(strings.ToLower(u.UPN), "@"+name); ok {
			u.UPN = local + "@" + t.initial()
			u.Enabled = u.Enabled && in["disableUserAccounts"] != true
		}
	}
	t.drop(name)
	return result{status: http.StatusAccepted}
}
