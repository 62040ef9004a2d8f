#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The drift classes that only the audit sees.

:data:`NAMES` are their values of a row's ``field``, beside the NAMEs of the
guarded fields.
"""

from nova_specguard.fields import base

SPEC = 'request_spec'
INSTANCE = 'instance'
STASHED = 'stashed_flavor'
COLUMNS = 'instance_columns'
MIGRATION = 'migration'
ALLOCATION = 'allocation'
NAMES = (SPEC, INSTANCE, STASHED, COLUMNS, MIGRATION, ALLOCATION)

SPEC_MISSING = base.DriftClass(
    'spec-missing', 'warning',
    'The row was deleted, or lost with a restored database. nova-api answers '
    '404 or 500 to each move.',
    'LP#2095364 (listing servers), fixed; moves are not.')
SPEC_ORPHAN = base.DriftClass(
    'spec-orphan', 'info',
    'A server that was deleted while a database was not reachable, or purged '
    'by hand.')
SPEC_UNREADABLE = base.DriftClass(
    'spec-unreadable', 'warning',
    'The text was edited or cut off. nova-api fails on each move.',
    'Not a bug of nova.')
SPEC_NEWER = base.DriftClass(
    'spec-newer', 'warning',
    'A service of a newer release saved the row: an upgrade under way, or '
    'gone back on. This nova cannot load it.',
    'Nova by design.')
INSTANCE_UNREADABLE = base.DriftClass(
    'instance-unreadable', 'warning',
    'The flavor in ``instance_extra`` is missing or was edited. There is '
    'nothing that the spec could be compared with.',
    'Not a bug of nova.')
STASHED_FLAVOR = base.DriftClass(
    'stashed-flavor', 'info',
    'A resize that failed. Nova overwrites what it left at the next one.')
INSTANCE_COLUMNS = base.DriftClass(
    'instance-columns', 'warning',
    'The columns of ``instances`` or the embedded flavor were edited, or a '
    'resize ended between two saves.')
MIGRATION_STUCK = base.DriftClass(
    'migration-stuck', 'warning',
    'A lost cast, or a service that died during the move; then a '
    'reset-state. The migration can hold an allocation.')
ALLOCATION_OTHER = base.DriftClass(
    'allocation', 'warning',
    'A move that was scheduled with a drifted request spec, or a rebuild that '
    'failed on the compute, which deletes the allocation.',
    'Rebuild: none found, open.')
ALLOCATION_UNJUDGED = base.DriftClass(
    'allocation-unjudged', 'info',
    'Not drift by itself: the flavor asks for vGPUs, accelerators or other '
    'classes that can be allocated at another provider than the compute node; '
    'or a move that was scheduled with a drifted request spec.')
CLASSES = {
    SPEC: (SPEC_MISSING, SPEC_ORPHAN, SPEC_UNREADABLE, SPEC_NEWER),
    INSTANCE: (INSTANCE_UNREADABLE,),
    STASHED: (STASHED_FLAVOR,),
    COLUMNS: (INSTANCE_COLUMNS,),
    MIGRATION: (MIGRATION_STUCK,),
    ALLOCATION: (ALLOCATION_OTHER, ALLOCATION_UNJUDGED),
}
# What is shown only: nova overwrites it, or it cannot be judged.
SHOWN = (STASHED_FLAVOR, ALLOCATION_UNJUDGED)


def finding(field, drift_class, spec_value, current_value):
    """What only the audit sees, in the form of a field's difference.

    :param field: one of NAMES
    :param drift_class: DriftClass
    :param spec_value: short form of what is wrong in the request spec, or
        else beside it
    :param current_value: short form of what the server itself says
    :returns: nova_specguard.fields.base.Difference
    """
    return base.Difference(field, drift_class, spec_value, current_value,
                           is_correctable=False, is_refusable=False)
