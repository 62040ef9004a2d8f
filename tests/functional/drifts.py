# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""How request specs drift in nova apart from flavor, NUMA and PCI.

Each method boots a server on amd1 and lets nova's own code fail, where the
drift atlas knows how; otherwise it edits the row, as an operator or an old
nova has. isolate_*() make aggregates by which nova tells the right value of a
field from the wrong one: what is right may run on amd1 and amd2, what is wrong
only on amd3-numa, as far as the AMD hosts go. They are made after the boot,
which would go elsewhere with them.
"""

import contextlib
import io
from unittest import mock

from nova.cmd import manage
from nova import objects
from nova.tests.functional.api import client
from oslo_db import exception as db_exception

from tests.functional import world

LINUX_IMAGE = '6c696e75-7800-4000-8000-000000000001'
WINDOWS_IMAGE = '77696e64-6f77-4000-8000-000000000002'
IMAGES = {LINUX_IMAGE: 'linux', WINDOWS_IMAGE: 'windows'}

OTHER_PROJECT = '0ther000000000000000000000000000'
OTHER_USER = '0therUser'

RIGHT_HOSTS = ('amd1', 'amd2')
WRONG_HOSTS = ('amd3-numa',)


class Drifts:
    """To be mixed into a base.TestCase, in front of it."""

    def setUp(self):
        super().setUp()
        for image, os_type in IMAGES.items():
            self.create_image(image, os_type=os_type)

    def create_image(self, image_id, **properties):
        self.glance.create(None, {
            'id': image_id, 'name': image_id, 'container_format': 'bare',
            'disk_format': 'raw', 'min_ram': 0, 'min_disk': 0,
            'visibility': 'public', 'tags': [], 'properties': properties})

    @contextlib.contextmanager
    def unguarded(self):
        """Nova alone: what the guard would have prevented is wanted here."""
        self.set_guard(mode='off')
        yield
        self.set_guard(mode='enforce')

    def spec_cannot_be_saved(self):
        return mock.patch.object(
            objects.RequestSpec, 'save',
            side_effect=db_exception.DBConnectionError())

    @contextlib.contextmanager
    def instance_row(self, server):
        """To edit it behind nova's back."""
        with self.cell_of(server) as cell_context:
            instance = objects.Instance.get_by_uuid(
                cell_context, server['id'],
                expected_attrs=['system_metadata'])
            yield instance
            instance.save()

    # What isolates

    def isolate_images(self):
        self._aggregate('linux', RIGHT_HOSTS, os_type='linux')
        self._aggregate('windows', WRONG_HOSTS, os_type='windows')

    def isolate_projects(self, server):
        self._aggregate(
            'owner', RIGHT_HOSTS, filter_tenant_id=server['tenant_id'])
        self._aggregate('other', WRONG_HOSTS, filter_tenant_id=OTHER_PROJECT)

    def isolate_zones(self):
        """The zones 'right' and 'wrong', and 'nowhere' for an AMD server."""
        self.create_zone('wrong', WRONG_HOSTS)
        self.create_zone('nowhere', ('intel1', 'intel2'))
        return self.create_zone('right', RIGHT_HOSTS)

    def create_group(self):
        """An anti-affinity group with a member on amd2.

        Another member on amd1 may move to amd3-numa only.
        """
        group = self.admin_api.post_server_groups(
            {'name': 'apart', 'policy': 'anti-affinity'})
        self.boot_member(group, 'amd2')
        return group

    # flavor, numa_topology, pci_requests

    def drift_to_smaller_flavor(self):
        """flavor-other (A2): the driver refused to resize the disk down."""
        server = self.boot_reported_case()
        with self.unguarded():
            self.fail_resize(server, world.E2_MEDIUM)
        return server

    def drift_to_too_big_flavor(self):
        server = self.boot()
        self.exceed_all_hosts(server)
        return server

    def drift_in_extra_specs(self):
        server = self.boot()
        self.edit_extra_specs(server)
        return server

    def drift_in_numa(self):
        """numa-topology (N1)."""
        server = self.boot(host='amd1')
        self.leave_numa_behind(server)
        return server

    def drift_in_pci(self):
        """pci-requests (P2)."""
        server = self.boot()
        with self.unguarded():
            self.leave_pci_behind(server)
        return server

    # image

    def leave_image_behind(self):
        """image-id: image_ref and system_metadata are linux, spec windows.

        nova-api saves the instance before the spec. The user's next try is a
        rebuild to the image that the server already has, so nova does not
        save the spec again.
        """
        server = self.boot_image(WINDOWS_IMAGE)
        with self.unguarded():
            with self.spec_cannot_be_saved():
                self.assertRaises(
                    client.OpenStackApiException, self.rebuild, server,
                    LINUX_IMAGE)
            self.reset_state(server)
            self.rebuild(server, LINUX_IMAGE)
        return self.show(server)

    def refuse_rebuild(self):
        """image-ambiguous (A20): no host is valid for the new image.

        image_ref is rolled back to linux, the only right one of three: both
        system_metadata and spec stay windows. Isolates images itself.
        """
        server = self.boot_image(LINUX_IMAGE)
        self.isolate_images()
        with self.unguarded():
            self.rebuild(server, WINDOWS_IMAGE)
            self.reset_state(server)
        return self.show(server)

    def rebuild_back(self):
        """image-id without any fault of nova's surroundings.

        After a refused rebuild the user rebuilds to the image that the
        server had: nova finds it in image_ref, so puts system_metadata right
        but not the spec. Isolates images itself.
        """
        server = self.refuse_rebuild()
        with self.unguarded():
            self.rebuild(server, LINUX_IMAGE)
        return self.show(server)

    def leave_snapshot_as_image(self):
        """image-ambiguous (LP#1934094): image_ref is a deleted snapshot.

        Until nova 25 an unshelve that failed on the host left it behind, and
        the next one, here nova's own, kept it. The spec is right.
        """
        server = self.boot_image(LINUX_IMAGE)
        with self.unguarded():
            self.shelve(server)
            with self.instance_row(server) as instance:
                instance.image_ref = (
                    instance.system_metadata['shelved_image_id'])
            self.unshelve(server)
        return self.show(server)

    def lose_image_properties(self):
        """image-properties: os_type is linux on the server, spec windows.

        nova-manage saves the instance before the spec, and before nova 28
        the instance only (LP#2078999).
        """
        server = self.boot_image(WINDOWS_IMAGE)
        with self.unguarded():
            self.stop(server)
            with self.spec_cannot_be_saved():
                self.set_image_property(server, 'os_type=linux')
            self.start(server)
        return self.show(server)

    def set_image_property(self, server, *properties):
        """As nova-manage does; its return code."""
        with contextlib.redirect_stdout(io.StringIO()):
            return manage.ImagePropertyCommands().set(
                instance_uuid=server['id'], image_properties=list(properties))

    def boot_image(self, image):
        return self.boot(imageRef=image)

    # project

    def misplace_project(self):
        """As reschedules by an admin did until nova 18 (LP#1774205)."""
        server = self.boot()
        self.edit_spec(
            server, lambda spec: spec.update(project_id=OTHER_PROJECT))
        return server

    def misplace_user(self):
        """As those did with the admin's user."""
        server = self.boot()
        self.edit_spec(server, lambda spec: spec.update(user_id=OTHER_USER))
        return server

    # scheduler_hints

    def leave_rebuild_hint(self, **boot):
        """A8: nova stores what only this one rebuild's scheduling needs.

        Healing a row of before Rocky saves the spec in flight. What moves
        with the hint skips placement and all filters that do not run on a
        rebuild: a server of the Intel hosts then lands on the first host.
        """
        server = self.boot(**boot)
        self.forget_is_bfv(server)
        with self.unguarded():
            self.rebuild(server)
        return self.show(server)

    # instance_group

    def boot_member(self, group, host):
        """A server in a group, on a host."""
        body = self._build_server(
            image_uuid=LINUX_IMAGE, flavor_id=world.A2_MEDIUM.flavorid,
            networks='none', host=host)
        server = self.admin_api.post_server({
            'server': body, 'os:scheduler_hints': {'group': group['id']}})
        self.eventually(lambda: self.assertEqual(
            'ACTIVE', self.show(server)['status']))
        return self.show(server)

    def add_to_group(self):
        """server-group-missing (G1): a member that its spec knows not of.

        No API of nova does that, operators do.
        """
        server = self.boot()
        group = self.create_group()
        objects.InstanceGroup.add_members(
            self.context, group['id'], [server['id']])
        return server

    def remove_from_group(self):
        """server-group-gone: the spec has a group without the server."""
        group = self.create_group()
        server = self.boot_member(group, 'amd1')
        objects.InstanceGroup._remove_members_in_db(
            self.context, self.group_of(group).id, [server['id']])
        return server

    def delete_group(self):
        """server-group-gone: nova's API deletes groups with members.

        The row keeps group and hint until the spec is next saved.
        """
        group = self.create_group()
        server = self.boot_member(group, 'amd1')
        self.admin_api.delete_server_group(group['id'])
        return server

    def group_of(self, group):
        return objects.InstanceGroup.get_by_uuid(self.context, group['id'])

    # availability_zone

    def boot_pinned(self, zone='right'):
        return self.boot(availability_zone=zone)

    def move_out_of_zone(self):
        """zone-pin-violated: pinned to 'right', forced into 'wrong'.

        A forced move does not go through the scheduler.
        """
        self.isolate_zones()
        server = self.boot_pinned()
        with self.unguarded():
            self.force_live_migrate(server, WRONG_HOSTS[0])
        # nova's fake driver keeps a server that was migrated away.
        del self.computes['amd1'].driver.instances[server['id']]
        return self.show(server)

    def fail_unshelve_into_zone(self):
        """A22: nova pins before it looks for a host, and finds none.

        The server, from zone 'right', is left offloaded and pinned to
        'nowhere' (LP#1978573).
        """
        self.isolate_zones()
        server = self.boot_pinned()
        with self.unguarded():
            self.shelve(server)
            self.unshelve(server, availability_zone='nowhere')
        return self.show(server)

    def dissolve_zone(self, unshelve=True):
        """zone-pin-unknown: pinned to 'right', which is no more.

        nova lets a zone's hosts go while no server runs on them, and
        unshelves into a zone that it has no aggregate for anywhere.

        :param unshelve: False to leave the server offloaded
        """
        aggregate = self.isolate_zones()
        server = self.boot_pinned()
        with self.unguarded():
            self.shelve(server)
            for host in RIGHT_HOSTS:
                self.admin_api.remove_host_from_aggregate(aggregate, host)
            self.admin_api.delete_aggregate(aggregate)
            if unshelve:
                self.unshelve(server)
        return self.show(server)

    # is_bfv

    def forget_is_bfv(self, server):
        """As a row that was last written before Rocky."""
        self.edit_spec(server, lambda spec: spec.pop('is_bfv'))

    def lose_is_bfv(self):
        server = self.boot()
        self.forget_is_bfv(server)
        return server

    def misstate_is_bfv(self, server):
        """nova heals a missing value only. The server runs from an image."""
        self.edit_spec(server, lambda spec: spec.update(is_bfv=True))

    def drift_in_is_bfv(self):
        server = self.boot()
        self.misstate_is_bfv(server)
        return server
