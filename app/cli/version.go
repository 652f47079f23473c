// SPDX-License-Identifier: Apache-2.0

package cli

// Version and Commit are the version and the commit of the program that runs. The program sets them
// before it does anything else.
var Version, Commit = "0.1.0-dev", "unknown"
