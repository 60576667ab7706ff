//! The cluster as operators look at it: which nodes there are, and where replica groups stand.

use broker_core::metadata::QueueId;
use cluster::{GroupStatus, NodeId, Role};

use crate::broker::Broker;
use crate::queue::Lane;

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNodeView {
    /// Its number.
    pub node: u64,
    /// Where it listens for the others.
    pub address: String,
    /// Whether it is this node, or one that can be reached from here.
    pub is_up: bool,
}

/// A replica group, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Its number; 0 is the group of the metadata.
    pub group: u32,
    /// The nodes that have a copy.
    pub members: Vec<u64>,
    /// Those of them that can be reached from here.
    pub online: Vec<u64>,
    /// Who leads; nobody while a majority is missing or an election is under way.
    pub leader: Option<u64>,
    /// Entries in this node's log; 0 on a node without a copy.
    pub last_index: u64,
    /// The last of them that is applied here.
    pub applied_index: u64,
}

impl GroupView {
    /// Whether a majority of the members can be reached from here.
    pub fn has_majority(&self) -> bool {
        self.online.len() * 2 > self.members.len()
    }

    /// Why nothing is confirmed at the moment; `None` while somebody leads.
    pub fn why(&self) -> Option<String> {
        if self.leader.is_some() && self.has_majority() {
            return None;
        }
        let missing = self
            .members
            .iter()
            .filter(|node| !self.online.contains(node));
        let missing: Vec<String> = missing.map(|node| format!("node {node}")).collect();
        Some(match self.has_majority() {
            true => "its members are electing a leader".to_owned(),
            false => format!(
                "{} of {} members can be reached, which is no majority: {} cannot; publishes are \
                 held and nothing is confirmed until a majority is back",
                self.online.len(),
                self.members.len(),
                missing.join(", ")
            ),
        })
    }
}

impl Broker {
    /// This node's number in its cluster; `None` when it stands alone.
    pub fn cluster_node(&self) -> Option<u64> {
        Some(self.node().replication.as_ref()?.me().0)
    }

    /// The nodes of the cluster in the order of their numbers; none when the node stands alone.
    pub fn cluster_nodes(&self) -> Vec<ClusterNodeView> {
        let Some(replication) = &self.node().replication else {
            return Vec::new();
        };
        let members = replication.options.members.iter();
        let mut nodes: Vec<ClusterNodeView> = members
            .map(|member| ClusterNodeView {
                node: member.node,
                address: member.address.clone(),
                is_up: self.is_up(NodeId(member.node)),
            })
            .collect();
        nodes.sort_unstable_by_key(|node| node.node);
        nodes
    }

    /// The group that keeps users, policies and topology.
    pub fn metadata_group(&self) -> Option<GroupView> {
        let group = self.node().replication.as_ref()?.metadata()?;
        Some(self.group_view(0, cluster::ReplicaGroup::status(&**group)))
    }

    /// The replica groups of quorum queues.
    pub fn queue_groups(&self) -> Vec<GroupView> {
        let groups = self.node().replication.iter().flat_map(|own| own.groups());
        (1..)
            .zip(groups)
            .map(|(number, group)| self.group_view(number, cluster::ReplicaGroup::status(&**group)))
            .collect()
    }

    /// The replica group of a queue; `None` for one that is not replicated.
    pub fn group_of(&self, queue: QueueId) -> Option<GroupView> {
        let Lane::Group(number) = self.node().queue(queue)?.lane else {
            return None;
        };
        let group = self.node().replication.as_ref()?.group(number)?;
        Some(self.group_view(number, cluster::ReplicaGroup::status(&**group)))
    }

    /// Removes the ready messages of a queue, wherever it is led; `None` when it is gone.
    pub async fn purge(&self, queue: QueueId) -> Option<Result<u64, broker_core::Refusal>> {
        let queue = self.node().queue(queue)?;
        Some(self.node().purge(&queue).await)
    }

    /// Asks every node to hand over what it leads too much. Returns at once.
    pub fn rebalance(&self) {
        let Some(replication) = &self.node().replication else {
            return;
        };
        for node in self.node().other_nodes() {
            self.node().ask_to_rebalance(node);
        }
        replication.balance_now();
    }

    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        let replication = self.node().replication.as_ref();
        replication.is_some_and(|own| own.me() == node || own.links.is_up(node))
    }

    fn group_view(&self, group: u32, status: GroupStatus) -> GroupView {
        let leader = match status.role {
            Role::Leaderless => None,
            _ => status.leader,
        };
        let online = status.members.iter().filter(|node| self.is_up(**node));
        GroupView {
            group,
            online: online.map(|node| node.0).collect(),
            members: status.members.iter().map(|node| node.0).collect(),
            leader: leader.map(|node| node.0),
            last_index: status.last_index,
            applied_index: status.applied_index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(online: &[u64], leader: Option<u64>) -> GroupView {
        GroupView {
            group: 3,
            members: vec![1, 2, 3],
            online: online.to_vec(),
            leader,
            last_index: 9,
            applied_index: 9,
        }
    }

    #[test]
    fn a_group_with_a_leader_and_a_majority_has_nothing_to_explain() {
        assert_eq!(group(&[1, 3], Some(3)).why(), None);
    }

    #[test]
    fn a_group_without_a_majority_names_who_is_missing() {
        // The leader has not noticed yet.
        let why = group(&[2], Some(2)).why().expect("nothing is confirmed");
        assert!(why.starts_with("1 of 3 members"), "{why}");
        assert!(why.contains("node 1, node 3 cannot"), "{why}");
    }

    #[test]
    fn a_group_that_elects_says_so() {
        let why = group(&[1, 2, 3], None).why();
        assert_eq!(why.as_deref(), Some("its members are electing a leader"));
    }
}
