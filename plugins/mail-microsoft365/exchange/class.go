// SPDX-License-Identifier: Apache-2.0

package exchange

import "strings"

// Class is the meaning of a cmdlet's failure.
type Class int

// The classes of failures.
const (
	Unknown      Class = iota // none of the classes below
	NotFound                  // the object that the command names does not exist
	AddressTaken              // an address of the new object is in use
	Exists                    // an object with that name exists already
	Dehydrated                // Enable-OrganizationCustomization must run first
	BadParameter              // the cmdlet does not accept a parameter of the command
	InvalidValue              // the cmdlet does not accept a value, or a CNAME record for DKIM is missing
	LimitReached              // the organization or a rule would exceed a limit
	NotAccepted               // the domain is not an accepted domain of Exchange
	Throttled
	Transient
)

// objectNotFound is the exception type of a cmdlet whose object does not exist.
const objectNotFound = "ManagementObjectNotFoundException"

// byType maps suffixes of .NET types to classes. The first row that matches is used.
var byType = []struct {
	suffix string
	class  Class
}{
	{objectNotFound, NotFound},
	{"WLCDManagedMemberExistsException", AddressTaken},
	{"ProxyAddressExistsException", AddressTaken},
	{"ADObjectAlreadyExistsException", Exists},
	{"InvalidOperationInDehydratedContextException", Dehydrated},
	{"ParameterTransformationException", BadParameter},
	{"AmbiguousParameterSetException", BadParameter},
	{"SPRetriableException", Transient},
	{"CmdletProxyNotAvailableFailure", Transient},
	{"ServerBusyException", Transient},
	{"BackendCommunicationException", Transient},
	{"TransientException", Transient},
}

// byText maps parts of a message, in lower case, to classes. The first row that matches is used.
var byText = []struct {
	text  string
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
	{"couldn't be found", NotFound},
	{"cannot process argument transformation", BadParameter},
	{"invalid cmdlet parameters", BadParameter},
	{"maximum number of rules", LimitReached},
	{"rule is too large", LimitReached},
	{"cname record does not exist", InvalidValue},
}

// classify returns the class of a .NET type and a lower-case message. It compares the type first
// and then the message. For the types of validation errors it compares the message first, because
// Exchange uses these types for many reasons.
func classify(dotnetType, text string) Class {
	for _, row := range byType {
		if strings.HasSuffix(dotnetType, row.suffix) {
			return row.class
		}
	}
	if strings.HasPrefix(dotnetType, "NameConversion") {
		return Exists
	}
	for _, row := range byText {
		if strings.Contains(text, row.text) {
			return row.class
		}
	}
	switch {
	case strings.HasPrefix(dotnetType, "RulesValidation"):
		return LimitReached
	case strings.HasSuffix(dotnetType, "ValidationException"):
		return InvalidValue
	default:
		return Unknown
	}
}
