package git

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// go-git takes multi_ack, multi_ack_detailed and thin-pack out of what a server
// offers, since its own stores do not use them. Some hosts answer no request without
// them (Azure DevOps, CodeCommit, Dulwich), so what was offered is kept here.

// mostOffered bounds what is kept of an advertisement, in bytes: its first lines, which
// have the capabilities.
const mostOffered = 4096

// offered is the body of an advertisement, whose beginning is kept as it is read.
type offered struct {
	io.ReadCloser
	first []byte
}

// Read implements [io.Reader].
func (o *offered) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.first = append(o.first, p[:min(n, mostOffered-len(o.first))]...)
	return n, err
}

// capabilities are all that were offered.
func (o *offered) capabilities() []string {
	lines := pktline.NewScanner(bytes.NewReader(o.first))
	for lines.Scan() {
		if _, caps, ok := bytes.Cut(lines.Bytes(), []byte{0}); ok {
			return strings.Fields(string(caps))
		}
	}
	return nil
}

// note keeps the beginning of an advertisement for reading.
func (b *bodies) note(request *http.Request, response *http.Response) {
	if strings.HasSuffix(request.URL.Path, "/info/refs") && response.StatusCode == http.StatusOK {
		b.offered = &offered{ReadCloser: response.Body}
		response.Body = b.offered
	}
}

// AdvertisedReferencesContext reads what the server offers, with what go-git leaves out.
func (s httpUpload) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	adv, err := s.UploadPackSession.AdvertisedReferencesContext(ctx)
	if b, ok := s.client.Transport.(*bodies); err == nil && ok && b.offered != nil {
		for _, name := range b.offered.capabilities() {
			for _, c := range transport.UnsupportedCapabilities {
				if name == c.String() {
					_ = adv.Capabilities.Set(capability.Capability(name)) // it has no value
				}
			}
		}
	}
	return adv, err
}
