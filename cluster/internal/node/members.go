package node

import (
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// change applies a change of the members.
func (n *Node) change(_ *Delivery, e *pb.Entry) error {
	cc := &pb.ConfChangeV2{}
	if err := proto.Unmarshal(e.Data, cc); err != nil {
		return err
	}
	n.rn.ApplyConfChange(cc)
	return nil
}
