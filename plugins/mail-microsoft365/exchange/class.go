// SPDX-License-Identifier: Apache-2.0

package exchange

import "strings"

// Class is what a cmdlet's failure means.
type Class int

// The classes.
const (
	Unknown      Class = iota
	NotFound           // the object that the command names
	AddressTaken       // a proxy address of what is to be made is in use
	Exists             // an object of that name is there already
	Member             // it is a member already
	NoMember           // it was no member
	Dehydrated         // Enable-OrganizationCustomization has to come first
	Bug                // a parameter that the cmdlet does not take from us
	Invalid            // a value that the cmdlet does not take
	Limit              // a limit of the organization
	NotAccepted        // the domain is no accepted domain
	Throttled
	Transient
)

// objectNotFound is the type by which a cmdlet says that it has no such object.
const objectNotFound = "ManagementObjectNotFoundException"

// byType is read from the top: the first ending that the .NET type has decides.
var byType = []struct {
	ending string
	class  Class
}{
	{objectNotFound, NotFound},
	{"WLCDManagedMemberExistsException", AddressTaken},
	{"ProxyAddressExistsException", AddressTaken},
	{"ADObjectAlreadyExistsException", Exists},
	{"MemberAlreadyExistsException", Member},
	{"MemberNotFoundException", NoMember},
	{"InvalidOperationInDehydratedContextException", Dehydrated},
	{"ParameterTransformationException", Bug},
	{"AmbiguousParameterSetException", Bug},
	{"SPRetriableException", Transient},
	{"CmdletProxyNotAvailableFailure", Transient},
	{"ServerBusyException", Transient},
	{"BackendCommunicationException", Transient},
	{"TransientException", Transient},
}

// byText decides where the type does not. The words are in lower case.
var byText = []struct {
	words string
	class Class
}{
	{"recent queries have surpassed the permitted limit", Throttled},
	{"cmdletproxynotavailablefailure", Transient},
	{"server side error", Transient},
	{"try again after some time", Transient},
	{"enable-organizationcustomization", Dehydrated},
	{"accepted domain", NotAccepted},
	{"proxy address", AddressTaken},
	{"is already being used", Exists},
	{"already exists", Exists},
	{"already a member", Member},
	{"isn't a member", NoMember},
	{"couldn't be found", NotFound},
	{"cannot process argument transformation", Bug},
	{"invalid cmdlet parameters", Bug},
	{"maximum number of rules", Limit},
	{"rule is too large", Limit},
	{"cname record does not exist", Invalid},
}

// classify decides by type, then by text.
func classify(kind, text string) Class {
	for _, row := range byType {
		if strings.HasSuffix(kind, row.ending) {
			return row.class
		}
	}
	if strings.HasPrefix(kind, "NameConversion") {
		return Exists
	}
	for _, row := range byText {
		if strings.Contains(text, row.words) {
			return row.class
		}
	}
	switch {
	case strings.HasPrefix(kind, "RulesValidation"):
		return Limit
	case strings.HasSuffix(kind, "ValidationException"):
		return Invalid
	default:
		return Unknown
	}
}
